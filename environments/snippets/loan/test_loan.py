import pytest
from loan import interest, months


def test_months():
    assert months(1000, 500) == 3


def test_without_interest():
    assert months(1000, 500, percent=0) == 2


def test_paid_at_once():
    assert months(100, 101) == 1


def test_never():
    with pytest.raises(ValueError):
        months(1000, 10)


def test_slowly():
    assert months(100, 2) == 51


def test_interest():
    assert interest(1000, 500) == 15


def test_no_interest():
    assert interest(1000, 500, percent=0) == 0
