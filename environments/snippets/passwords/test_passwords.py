from passwords import kinds, masked, strength


def test_kinds():
    assert kinds("aB3!") == 4


def test_one_kind():
    assert [kinds(text) for text in ("a", "A", "1", "-")] == [1, 1, 1, 1]


def test_weak():
    assert strength("aB3!xyz") == "weak"


def test_fair():
    assert strength("abcdefgh") == "fair"


def test_long_but_plain():
    assert strength("abcdefghijkl1") == "fair"


def test_strong():
    assert strength("Abcdefghijk1") == "strong"


def test_masked():
    assert masked("secret") == "****et"


def test_masked_short():
    assert masked("a") == "a"
