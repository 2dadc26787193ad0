from weekday import after, is_weekend, until, working_days


def test_after():
    assert after("Sat", 3) == "Tue"


def test_before():
    assert after("Mon", -1) == "Sun"


def test_weekend():
    assert is_weekend("Sat") and is_weekend("Sun")


def test_no_weekend():
    assert not is_weekend("Fri")


def test_working_days():
    assert working_days("Thu", 5) == 3


def test_working_week():
    assert working_days("Mon", 7) == 5


def test_until():
    assert until("Fri", "Mon") == 3


def test_until_next_week():
    assert until("Fri", "Fri") == 7
