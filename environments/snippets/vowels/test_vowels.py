from vowels import count_vowels, hide_vowels, longest_run


def test_count_vowels():
    assert count_vowels("Apple pie") == 4


def test_no_vowels():
    assert count_vowels("rhythm") == 0


def test_hide_vowels():
    assert hide_vowels("Otto") == "*tt*"


def test_hide_with_other_mark():
    assert hide_vowels("tea", "_") == "t__"


def test_longest_run():
    assert longest_run("beautiful queue") == 4


def test_longest_run_first():
    assert longest_run("eau de toilette") == 3
