"""Reverse Polish calculations."""


def evaluate(text):
    """The value of e.g. "3 4 + 2 *"."""
    stack = []
    for word in text.split():
        if word in ("+", "-", "*", "/"):
            if len(stack) < 2:
                raise ValueError(f"{word} needs two numbers")
            right = stack.pop()
            left = stack.pop()
            if word == "+":
                stack.append(left + right)
            elif word == "-":
                stack.append(left - right)
            elif word == "*":
                stack.append(left * right)
            else:
                stack.append(left // right)
        else:
            stack.append(int(word))
    if len(stack) != 1:
        raise ValueError("numbers are left over")
    return stack[0]
