import pytest
from clock import between, parse, show


def test_parse():
    assert parse("07:45") == 465


def test_last_minute():
    assert parse("23:59") == 1439


@pytest.mark.parametrize("text", ["24:00", "12:60"])
def test_no_time(text):
    with pytest.raises(ValueError):
        parse(text)


def test_show():
    assert show(465) == "07:45"


def test_show_wraps():
    assert show(1440 + 61) == "01:01"


def test_between():
    assert between("08:00", "09:30") == 90


def test_over_midnight():
    assert between("23:30", "00:10") == 40


def test_no_time_passes():
    assert between("10:00", "10:00") == 0
