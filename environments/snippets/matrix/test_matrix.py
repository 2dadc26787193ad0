import pytest
from matrix import multiply, rotate, trace, transpose


def test_transpose():
    assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]


def test_multiply():
    assert multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]
    assert multiply([[2, 0, 1]], [[1], [2], [3]]) == [[5]]
    with pytest.raises(ValueError):
        multiply([[1, 2]], [[1, 2]])


def test_rotate():
    assert rotate([[1, 2], [3, 4], [5, 6]]) == [[5, 3, 1], [6, 4, 2]]


def test_trace():
    assert trace([[1, 2], [3, 4]]) == 5
    assert trace([]) == 0
