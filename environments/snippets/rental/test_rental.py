import pytest
from rental import days_between, late_fee, price


def test_days():
    assert days_between(3, 5) == 3


def test_same_day():
    assert days_between(4, 4) == 1


def test_too_early():
    with pytest.raises(ValueError):
        days_between(5, 4)


def test_price():
    assert price(3) == 36


def test_week():
    assert price(7) == 60


def test_nearly_a_week():
    assert price(6) == 60


def test_week_and_days():
    assert price(9) == 84


def test_own_prices():
    assert price(8, per_day=1, weekly=5) == 6


def test_in_time():
    assert late_fee(10, 10) == 0


def test_late():
    assert late_fee(10, 12) == 35


def test_early():
    assert late_fee(10, 8) == 0
