import pytest
from battery import charge, hours_left, icon


def test_hours_left():
    assert hours_left(65, 10) == 6


def test_nearly_empty():
    assert hours_left(3, 10) == 0


@pytest.mark.parametrize("drain", [0, -1])
def test_no_drain(drain):
    with pytest.raises(ValueError):
        hours_left(50, drain)


def test_small_drain():
    assert hours_left(50, 1) == 45


def test_charge():
    assert charge(20, 30) == 35


def test_fast_charge():
    assert charge(20, 30, fast=True) == 50


def test_full():
    assert charge(90, 60) == 100


def test_icon():
    assert icon(50) == "[||  ]"


def test_icon_rounds_up():
    assert icon(51) == "[||| ]"


def test_empty_icon():
    assert icon(0) == "[    ]"
