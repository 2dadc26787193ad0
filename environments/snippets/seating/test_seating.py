import pytest
from seating import book, free, together


def test_free():
    assert free(["x..", ".xx"]) == 3


def test_together():
    assert together(["x.x", "x.."], 2) == (2, 2)


def test_first_row():
    assert together(["..x"], 2) == (1, 1)


def test_not_together():
    assert together([".x."], 2) is None


def test_book():
    assert book(["...", "..."], 2, 3) == ["...", "..x"]


def test_book_first():
    assert book(["..", "xx"], 1, 1) == ["x.", "xx"]


def test_taken():
    with pytest.raises(ValueError):
        book(["x."], 1, 1)
