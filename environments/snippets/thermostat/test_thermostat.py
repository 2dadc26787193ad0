import pytest
from thermostat import Thermostat


def test_cold():
    assert Thermostat().read(17) is True


def test_just_warm_enough():
    assert Thermostat().read(18) is False


def test_stays_on_in_between():
    heating = Thermostat()
    heating.read(10)
    assert heating.read(21) is True


def test_hot():
    heating = Thermostat()
    heating.read(10)
    assert heating.read(22) is False


def test_switches():
    heating = Thermostat()
    for degrees in (10, 12, 25, 24, 10):
        heating.read(degrees)
    assert heating.switches == 3


def test_own_thresholds():
    assert Thermostat(5, 8).read(10) is False


def test_wrong_thresholds():
    with pytest.raises(ValueError):
        Thermostat(20, 20)
