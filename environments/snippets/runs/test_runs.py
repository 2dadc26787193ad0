from runs import decode, encode, longest


def test_encode():
    assert encode("aaab") == [("a", 3), ("b", 1)]
    assert encode("abba") == [("a", 1), ("b", 2), ("a", 1)]
    assert encode("") == []


def test_decode():
    assert decode([("x", 2), ("y", 3)]) == "xxyyy"
    assert decode(encode("mississippi")) == "mississippi"


def test_longest():
    assert longest("abbbcc") == "b"
    assert longest("aabb") == "a"
    assert longest("") is None
