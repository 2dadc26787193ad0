import pytest
from swimming import final, medals, places


def test_final():
    assert final([7, 9, 8, 5]) == 15


def test_difficulty():
    assert final([6, 7, 9], difficulty=2.5) == 17.5


def test_too_few():
    with pytest.raises(ValueError):
        final([5, 6])


def test_places():
    assert places({"a": 9, "b": 7, "c": 9, "d": 5}) == {"a": 1, "b": 3, "c": 1, "d": 4}


def test_medals():
    assert medals({"a": 9, "b": 7, "c": 8, "d": 5}) == {"a": "gold", "b": "bronze", "c": "silver"}


def test_shared_gold():
    assert medals({"a": 9, "b": 9, "c": 8}) == {"a": "gold", "b": "gold", "c": "bronze"}
