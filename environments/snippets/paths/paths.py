"""Paths with slashes."""


def normal(path):
    """Without empty parts, "." and ".." where they can be taken back."""
    absolute = path.startswith("/")
    parts = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not absolute:
            parts.append(part)
    return ("/" if absolute else "") + "/".join(parts)


def extension(path):
    """What follows the last dot of the name; nothing for hidden files."""
    name = path.split("/")[-1]
    stem, dot, end = name.rpartition(".")
    return end if dot and stem else ""


def join(folder, name):
    if name.startswith("/"):
        return name
    return folder.rstrip("/") + "/" + name
