from parking import fee, free_places


def test_free_quarter():
    assert fee(15) == 0


def test_first_hour():
    assert fee(16) == 200


def test_full_hour():
    assert fee(60) == 200


def test_started_hour():
    assert fee(61) == 400


def test_most():
    assert fee(60 * 12) == 1500


def test_free_places():
    assert free_places(3, ["in", "in", "out"]) == 2


def test_full():
    assert free_places(1, ["in", "in", "out"]) == 1


def test_nobody_leaves():
    assert free_places(2, ["out", "in"]) == 1
