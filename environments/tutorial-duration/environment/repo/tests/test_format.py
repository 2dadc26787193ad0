import pytest

from stopwatch import format_duration


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59, "0:59"), (61, "1:01")])
def test_seconds(seconds, shown):
    assert format_duration(seconds) == shown


def test_negative_durations_are_refused():
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)
