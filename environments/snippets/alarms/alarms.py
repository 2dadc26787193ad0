"""When an alarm goes off."""


def due(alarms, now):
    """Names of the alarms that are due, the oldest first. alarms: {name: minute}."""
    found = [(minute, name) for name, minute in alarms.items() if minute <= now]
    return [name for _, name in sorted(found)]


def snooze(alarms, name, minutes=9):
    """The alarms with this one later."""
    if name not in alarms:
        raise KeyError(name)
    return {**alarms, name: alarms[name] + minutes}


def repeats(start, every, until):
    """Minutes at which it rings, `until` included."""
    times = []
    while start <= until:
        times.append(start)
        start += every
    return times
