from ranges import collapse, expand


def test_expand():
    assert expand("1-3,7") == [1, 2, 3, 7]


def test_expand_one():
    assert expand("5") == [5]


def test_expand_last():
    assert expand("4,8-9") == [4, 8, 9]


def test_collapse():
    assert collapse([1, 2, 3, 7]) == "1-3,7"


def test_collapse_pair():
    assert collapse([4, 8, 9]) == "4,8-9"


def test_collapse_one():
    assert collapse([5]) == "5"


def test_collapse_gaps():
    assert collapse([1, 3, 5]) == "1,3,5"
