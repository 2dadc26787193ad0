import pytest
from alarms import due, repeats, snooze


def test_due():
    assert due({"b": 30, "a": 10, "c": 31}, 30) == ["a", "b"]


def test_nothing_due():
    assert due({"a": 10}, 9) == []


def test_snooze():
    assert snooze({"a": 10, "b": 5}, "a") == {"a": 19, "b": 5}


def test_short_snooze():
    assert snooze({"a": 10}, "a", 2) == {"a": 12}


def test_no_alarm():
    with pytest.raises(KeyError):
        snooze({"a": 10}, "b")


def test_repeats():
    assert repeats(10, 5, 20) == [10, 15, 20]


def test_no_repeats():
    assert repeats(30, 5, 20) == []
