from rounds import pairings, points


def test_first_round():
    assert pairings(["a", "b", "c", "d"], 0) == [("a", "d"), ("b", "c")]


def test_odd_number():
    assert pairings(["a", "b", "c"], 0) == [("a", None), ("b", "c")]


def test_everybody_meets_everybody():
    met = {frozenset(pair) for number in range(3) for pair in pairings("abcd", number)}
    assert len(met) == 6


def test_home_wins():
    assert points([("a", "b", 2, 1)]) == {"a": 3, "b": 0}


def test_guest_wins():
    assert points([("a", "b", 0, 1)]) == {"a": 0, "b": 3}


def test_draw():
    assert points([("a", "b", 1, 1)]) == {"a": 1, "b": 1}


def test_two_games():
    assert points([("a", "b", 2, 1), ("b", "a", 0, 0)]) == {"a": 4, "b": 1}
