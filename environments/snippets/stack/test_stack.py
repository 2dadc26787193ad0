import pytest
from stack import Queue, calculate


def test_queue():
    queue = Queue()
    for item in (1, 2, 3):
        queue.push(item)
    assert queue.pop() == 1
    queue.push(4)
    assert len(queue) == 3
    assert [queue.pop() for _ in range(3)] == [2, 3, 4]
    with pytest.raises(IndexError):
        queue.pop()


def test_calculate():
    assert calculate("3 4 + 2 *") == 14
    assert calculate("10 4 -") == 6
    assert calculate("5") == 5


@pytest.mark.parametrize("text", ["", "1 2", "1 +", "+"])
def test_mistakes(text):
    with pytest.raises(ValueError):
        calculate(text)
