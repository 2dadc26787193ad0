from votes import ranking, seats, tally, winner


def test_tally():
    assert tally(["a", "b", "a"]) == {"a": 2, "b": 1}


def test_winner():
    assert winner(["a", "b", "a"]) == "a"


def test_half_is_not_enough():
    assert winner(["a", "b"]) is None


def test_ranking():
    assert ranking(["b", "c", "a", "c"]) == ["c", "a", "b"]


def test_seats():
    assert seats(["a"] * 6 + ["b"] * 3, 3) == {"a": 2, "b": 1}


def test_equal_votes():
    assert seats(["b", "a"], 1) == {"b": 0, "a": 1}
