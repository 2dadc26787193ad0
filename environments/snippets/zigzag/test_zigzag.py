from zigzag import rail_fence, rows, snake


def test_rows():
    assert rows("abcde", 2) == ["ab", "cd", "e"]


def test_rail_fence():
    assert rail_fence("abcdef", 3) == "aebdfc"


def test_two_rails():
    assert rail_fence("abcde", 2) == "acebd"


def test_snake():
    assert snake([[1, 2], [3, 4], [5, 6]]) == [1, 2, 4, 3, 5, 6]
