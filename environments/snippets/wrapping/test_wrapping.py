from wrapping import centre, shorten, wrap


def test_wrap():
    assert wrap("the quick brown fox", 9) == ["the quick", "brown fox"]
    assert wrap("a bb ccc", 4) == ["a bb", "ccc"]
    assert wrap("extraordinary x", 5) == ["extraordinary", "x"]
    assert wrap("", 5) == []


def test_centre():
    assert centre("ab", 5) == " ab  "
    assert centre("ab", 1) == "ab"
    assert centre("x", 3, "-") == "-x-"


def test_shorten():
    assert shorten("abcdefgh", 6) == "abc..."
    assert shorten("abc", 3) == "abc"
