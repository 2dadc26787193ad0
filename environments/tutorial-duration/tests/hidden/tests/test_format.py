import pytest

from stopwatch import format_duration


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59, "0:59"), (61, "1:01")])
def test_seconds(seconds, shown):
    assert format_duration(seconds) == shown


def test_negative_durations_are_refused():
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)


@pytest.mark.parametrize(("seconds", "shown"), [(600, "10:00"), (3599, "59:59")])
def test_minutes(seconds, shown):
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(3600, "1:00:00"), (5025, "1:23:45"), (90061, "25:01:01")])
def test_hours(seconds, shown):
    assert format_duration(seconds) == shown
