from titles import initials, shortened, title


def test_title():
    assert title("the lord of the rings") == "The Lord of the Rings"


def test_small_word_at_the_end():
    assert title("what a day this is in") == "What a Day This Is In"


def test_shouting():
    assert title("WAR AND PEACE") == "War and Peace"


def test_initials():
    assert initials("ada lovelace") == "A.L."


def test_initials_without_dot():
    assert initials("Alan Turing", "") == "AT"


def test_shortened():
    assert shortened("a long sentence", 9) == "a long..."


def test_fits():
    assert shortened("exact", 5) == "exact"
