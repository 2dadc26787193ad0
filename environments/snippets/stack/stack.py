"""A stack machine for sums in reverse notation, and a queue made of stacks."""


class Queue:
    """First in, first out, with two stacks."""

    def __init__(self):
        self._in = []
        self._out = []

    def push(self, item):
        self._in.append(item)

    def pop(self):
        if not self._out:
            while self._in:
                self._out.append(self._in.pop())
        if not self._out:
            raise IndexError("the queue is empty")
        return self._out.pop()

    def __len__(self):
        return len(self._in) + len(self._out)


def calculate(text):
    """`3 4 + 2 *` is 14; ValueError for a text that leaves more or less than one number."""
    stack = []
    for token in text.split():
        if token in ("+", "-", "*"):
            if len(stack) < 2:
                raise ValueError("too few numbers")
            right = stack.pop()
            left = stack.pop()
            if token == "+":
                stack.append(left + right)
            elif token == "-":
                stack.append(left - right)
            else:
                stack.append(left * right)
        else:
            stack.append(int(token))
    if len(stack) != 1:
        raise ValueError("too many numbers")
    return stack[0]
