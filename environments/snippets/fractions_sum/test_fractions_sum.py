import pytest
from fractions_sum import add, gcd, mixed, reduced


def test_gcd():
    assert gcd(12, 18) == 6


def test_gcd_with_zero():
    assert gcd(0, 5) == 5


def test_reduced():
    assert reduced(6, 8) == (3, 4)


def test_sign():
    assert reduced(1, -2) == (-1, 2)


def test_no_denominator():
    with pytest.raises(ZeroDivisionError):
        reduced(1, 0)


def test_add():
    assert add((1, 2), (1, 3)) == (5, 6)


def test_add_and_reduce():
    assert add((1, 4), (1, 4)) == (1, 2)


def test_mixed():
    assert mixed(7, 2) == (3, 1, 2)
