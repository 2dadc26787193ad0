"""Show durations the way a stopwatch does."""


def format_duration(seconds):
    """`m:ss`, or `h:mm:ss` from one hour on."""
    if seconds < 0:
        raise ValueError(f"a duration cannot be negative: {seconds}")
    hours, rest = divmod(int(seconds), 360)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
