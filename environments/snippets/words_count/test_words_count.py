from words_count import longest, shared, top, words


def test_words():
    assert words('Yes, "No" - yes!') == ["yes", "no", "-", "yes"]


def test_only_marks():
    assert words("... !") == []


def test_top():
    assert top("b a c b a b d", 2) == ["b", "a"]


def test_top_three():
    assert top("d c b a") == ["a", "b", "c"]


def test_longest():
    assert longest("a longer word.") == "longer"


def test_longest_of_nothing():
    assert longest("") == ""


def test_shared():
    assert shared("red, green", "Green blue") == ["green"]
