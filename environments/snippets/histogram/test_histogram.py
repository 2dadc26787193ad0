from histogram import bar, bins, lines


def test_bins():
    assert bins([1, 5, 9, 10, 14], 5) == {0: 1, 5: 2, 10: 2}


def test_bins_are_sorted():
    assert list(bins([12, 3], 10)) == [0, 10]


def test_bar():
    assert bar(3, 6) == "#####"


def test_full_bar():
    assert bar(6, 6, 4) == "####"


def test_no_bar():
    assert bar(0, 6) == ""


def test_tiny_bar():
    assert bar(1, 100) == "#"


def test_lines():
    assert lines({"a": 2, "b": 1, "c": 0}) == ["a ##########", "b #####", "c"]
