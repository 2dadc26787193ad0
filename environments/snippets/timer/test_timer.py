import pytest
from timer import Timer


def test_tick():
    timer = Timer(3)
    assert timer.tick() is False
    assert timer.left == 2


def test_rings():
    timer = Timer(2)
    assert timer.tick(2) is True
    assert timer.rang == 1


def test_rings_once():
    timer = Timer(1)
    timer.tick()
    assert timer.tick() is False
    assert timer.rang == 1


def test_never_below_zero():
    timer = Timer(2)
    timer.tick(5)
    assert timer.left == 0


def test_pause():
    timer = Timer(5)
    timer.pause()
    timer.tick()
    assert timer.left == 5


def test_go_on():
    timer = Timer(5)
    timer.pause()
    timer.pause()
    timer.tick()
    assert timer.left == 4


def test_show():
    assert Timer(125).show() == "2:05"


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time(seconds):
    with pytest.raises(ValueError):
        Timer(seconds)
