import pytest
from calculator import evaluate


def test_add():
    assert evaluate("3 4 +") == 7


def test_subtract():
    assert evaluate("10 4 -") == 6


def test_multiply():
    assert evaluate("3 4 + 2 *") == 14


def test_divide():
    assert evaluate("9 2 /") == 4


def test_number():
    assert evaluate("5") == 5


def test_two_numbers_needed():
    with pytest.raises(ValueError, match="needs two numbers"):
        evaluate("1 +")


def test_left_over():
    with pytest.raises(ValueError, match="left over"):
        evaluate("1 2")
