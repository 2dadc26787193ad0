"""Messages and filters."""


def matches(message, rule):
    """Does the message have all words of the rule, whatever their case?"""
    text = message.lower()
    return all(word in text for word in rule.lower().split())


def sort_out(messages, rules):
    """{folder: messages}; the first rule that fits decides, else "inbox"."""
    folders = {}
    for message in messages:
        folder = "inbox"
        for rule, name in rules:
            if matches(message, rule):
                folder = name
                break
        folders.setdefault(folder, []).append(message)
    return folders


def preview(message, limit=12):
    first = message.split("\n")[0]
    if len(first) > limit:
        return first[:limit] + "..."
    return first
