"""Tokens and values of simple sums."""


def tokenize(text):
    """Numbers and the signs + - * ( ) of a sum."""
    tokens = []
    index = 0
    while index < len(text):
        letter = text[index]
        if letter.isdigit():
            end = index
            while end < len(text) and text[end].isdigit():
                end += 1
            tokens.append(int(text[index:end]))
            index = end
        elif letter in "+-*()":
            tokens.append(letter)
            index += 1
        elif letter == " ":
            index += 1
        else:
            raise ValueError(f"what is {letter!r}?")
    return tokens


def evaluate(text):
    """The value of a sum; * binds more tightly than + and -."""
    value, rest = _sum(tokenize(text))
    if rest:
        raise ValueError(f"left over: {rest}")
    return value


def _sum(tokens):
    value, tokens = _product(tokens)
    while tokens and tokens[0] in ("+", "-"):
        sign = tokens[0]
        other, tokens = _product(tokens[1:])
        value = value + other if sign == "+" else value - other
    return value, tokens


def _product(tokens):
    value, tokens = _factor(tokens)
    while tokens and tokens[0] == "*":
        other, tokens = _factor(tokens[1:])
        value *= other
    return value, tokens


def _factor(tokens):
    if not tokens:
        raise ValueError("something is missing")
    if tokens[0] == "(":
        value, rest = _sum(tokens[1:])
        if not rest or rest[0] != ")":
            raise ValueError("a bracket is not closed")
        return value, rest[1:]
    if tokens[0] == "-":
        value, rest = _factor(tokens[1:])
        return -value, rest
    return tokens[0], tokens[1:]
