from maze import find, steps


def test_find():
    assert find(["..", ".G"], "G") == (1, 1)


def test_find_nothing():
    assert find([".."], "S") is None


def test_straight():
    assert steps(["S..G"]) == 3


def test_around_a_wall():
    assert steps(["S#G", "..."]) == 4


def test_upwards():
    assert steps(["G.", ".S"]) == 2


def test_no_way():
    assert steps(["S#G"]) is None


def test_long_way():
    assert steps(["S#...", ".#.#.", "...#G"]) == 10
