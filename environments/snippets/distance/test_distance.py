import pytest
from distance import closest, hamming, levenshtein


def test_hamming():
    assert hamming("karolin", "kathrin") == 3
    assert hamming("", "") == 0
    with pytest.raises(ValueError):
        hamming("a", "ab")


def test_levenshtein():
    assert levenshtein("kitten", "sitting") == 3
    assert levenshtein("", "abc") == 3
    assert levenshtein("abc", "") == 3
    assert levenshtein("flaw", "lawn") == 2
    assert levenshtein("same", "same") == 0


def test_closest():
    assert closest("helo", ["help", "hello", "halo"]) == "help"
    assert closest("x", []) is None
