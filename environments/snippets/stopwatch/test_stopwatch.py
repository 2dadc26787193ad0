import pytest
from stopwatch import Stopwatch


def watch(*marks):
    made = Stopwatch()
    for mark in marks:
        made.mark(mark)
    return made


def test_laps():
    assert watch(10, 25, 33).laps() == [10, 15, 8]


def test_best():
    assert watch(10, 25, 33).best() == 8


def test_no_laps():
    assert watch().best() is None


def test_faster():
    assert watch(10, 25, 33, 40).faster() == 2


def test_equal_laps():
    assert watch(5, 10).faster() == 0


@pytest.mark.parametrize("second", [5, 4])
def test_backwards(second):
    with pytest.raises(ValueError):
        watch(5, second)
