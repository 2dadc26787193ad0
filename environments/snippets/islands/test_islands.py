from islands import islands, neighbours


def test_neighbours():
    assert sorted(neighbours(1, 5)) == [(0, 5), (1, 4), (1, 6), (2, 5)]


def test_islands():
    assert islands(["##.", "..#", "#.#"]) == [2, 2, 1]


def test_diagonal_does_not_join():
    assert islands(["#.", ".#"]) == [1, 1]


def test_one_large():
    assert islands(["###", "#.#", "###"]) == [8]


def test_only_water():
    assert islands(["..", ".."]) == []
