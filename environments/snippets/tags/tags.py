"""Simple markup."""


def strip_tags(text):
    """The text without anything between < and >."""
    out = ""
    inside = False
    for letter in text:
        if letter == "<":
            inside = True
        elif letter == ">":
            inside = False
        elif not inside:
            out += letter
    return out


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def tag(name, content, **attributes):
    """An element; attributes in the order of their names."""
    parts = [name] + [f'{key}="{escape(value)}"' for key, value in sorted(attributes.items())]
    return f"<{' '.join(parts)}>{escape(content)}</{name}>"
