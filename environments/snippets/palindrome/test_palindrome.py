from palindrome import is_palindrome, letters, longest


def test_letters():
    assert letters("A b!") == ["a", "b"]


def test_sentence():
    assert is_palindrome("Never odd or even")


def test_no_palindrome():
    assert not is_palindrome("almost")


def test_longest():
    assert longest("xabbay") == "abba"


def test_longest_at_the_end():
    assert longest("xyzz") == "zz"


def test_first_of_several():
    assert longest("abab") == "aba"


def test_longest_of_nothing():
    assert longest("") == ""
