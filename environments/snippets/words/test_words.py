from words import frequencies, is_palindrome, top, words


def test_words():
    assert words("Don't stop, 'now'!") == ["don't", "stop", "now"]
    assert words("") == []


def test_frequencies():
    assert frequencies("a b A c") == {"a": 2, "b": 1, "c": 1}


def test_top():
    assert top("b a b c a d", 3) == ["a", "b", "c"]
    assert top("x", 0) == []


def test_palindromes():
    assert is_palindrome("A man, a plan, a canal: Panama")
    assert not is_palindrome("ab1a")
