from gears import closest, distance, ordered, ratio


def test_ratio():
    assert ratio(44, 16) == 2.75


def test_distance():
    assert distance(40, 20, 10) == 42.0


def test_other_wheel():
    assert distance(30, 20, 10, wheel=2) == 30.0


def test_ordered():
    assert ordered([30, 40], [20, 10]) == [(30, 20), (40, 20), (30, 10), (40, 10)]


def test_closest():
    assert closest([30, 40], [20, 10], 2.2) == (40, 20)


def test_closest_above():
    assert closest([30, 40], [20, 10], 2.8) == (30, 10)
