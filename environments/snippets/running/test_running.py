from running import fastest, pace, speed, splits


def test_pace():
    assert pace(25, 5) == "5:00"


def test_pace_with_seconds():
    assert pace(50, 9) == "5:33"


def test_short_seconds():
    assert pace(20.25, 5) == "4:03"


def test_speed():
    assert speed(30, 5) == 10


def test_splits():
    assert splits([60, 115, 180]) == [60, 55, 65]


def test_fastest():
    assert fastest([60, 115, 180]) == 2
