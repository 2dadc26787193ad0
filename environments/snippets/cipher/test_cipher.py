from cipher import mirror, shift, unshift


def test_shift():
    assert shift("abc xyz!", 3) == "def abc!"
    assert shift("Hello", 1) == "Ifmmp"
    assert shift("abc", 26) == "abc"


def test_unshift():
    assert unshift("def abc!", 3) == "abc xyz!"
    assert unshift(shift("Any Text", 11), 11) == "Any Text"


def test_mirror():
    assert mirror("abz Q") == "zya Q"
