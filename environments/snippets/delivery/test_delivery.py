import pytest
from delivery import cost, load, zone


def test_load():
    assert load([4, 5, 3, 8], 10) == [[4, 5], [3], [8]]


def test_full_van():
    assert load([6, 4, 1], 10) == [[6, 4], [1]]


def test_as_heavy_as_the_van():
    assert load([10], 10) == [[10]]


def test_too_heavy():
    with pytest.raises(ValueError):
        load([11], 10)


def test_zones():
    assert [zone(10), zone(11), zone(50), zone(51)] == [1, 2, 2, 3]


def test_cost():
    assert cost(2, 20) == 500


def test_express():
    assert cost(1, 5, express=True) == 700
