"""Lines of equal width."""


def greedy_lines(words, width):
    lines = [[]]
    length = 0
    for word in words:
        needed = len(word) + (1 if lines[-1] else 0)
        if lines[-1] and length + needed > width:
            lines.append([])
            length = 0
            needed = len(word)
        lines[-1].append(word)
        length += needed
    return lines


def justified(words, width):
    """Blanks spread over the gaps, more of them on the left."""
    gaps = len(words) - 1
    if gaps == 0:
        return words[0].ljust(width)
    blanks = width - sum(len(word) for word in words)
    each, extra = divmod(blanks, gaps)
    line = ""
    for place, word in enumerate(words[:-1]):
        line += word + " " * (each + (1 if place < extra else 0))
    return line + words[-1]
