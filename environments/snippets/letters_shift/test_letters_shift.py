from letters_shift import column, column_number, is_pangram, next_letter


def test_next_letter():
    assert next_letter("c") == "d"


def test_around_the_end():
    assert next_letter("z") == "a"


def test_column():
    assert [column(number) for number in (1, 26, 27, 52, 703)] == ["A", "Z", "AA", "AZ", "AAA"]


def test_column_number():
    assert [column_number(name) for name in ("A", "Z", "AA", "AAA")] == [1, 26, 27, 703]


def test_pangram():
    assert is_pangram("The quick brown fox jumps over the lazy dog")


def test_no_pangram():
    assert not is_pangram("The quick brown fox jumps over the lazy cat")


def test_marks_do_not_count():
    assert not is_pangram("abcdefghijklmnopqrstuvwxy!")
