import pytest
from elevator import Elevator


def test_go():
    lift = Elevator(5)
    lift.go(4)
    lift.go(1)
    assert lift.floor == 1
    assert lift.moved == 7


@pytest.mark.parametrize("floor", [-1, 5])
def test_no_floor(floor):
    with pytest.raises(ValueError):
        Elevator(5).go(floor)


def test_ground_floor():
    lift = Elevator(2)
    lift.go(0)
    assert lift.moved == 0


def test_visit():
    lift = Elevator(9)
    lift.go(3)
    assert lift.visit([5, 1, 3, 8, 2]) == [3, 5, 8, 2, 1]


def test_visit_moves():
    lift = Elevator(9)
    lift.visit([4, 2])
    assert lift.moved == 4
