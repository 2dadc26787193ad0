from config_lines import flag, number, parse


def test_parse():
    assert parse("a = 1\nb=two") == {"a": "1", "b": "two"}


def test_comments():
    assert parse("# all\n\na = 1 # one") == {"a": "1"}


def test_last_one_wins():
    assert parse("a = 1\na = 2") == {"a": "2"}


def test_value_with_equals():
    assert parse("a = b=c") == {"a": "b=c"}


def test_flag():
    assert flag({"fast": "Yes"}, "fast") is True


def test_no_flag():
    assert flag({"fast": "no"}, "fast") is False


def test_default():
    assert flag({}, "fast") is False


def test_other_default():
    assert flag({}, "fast", default=True) is True


def test_number():
    assert number({"size": "42"}, "size") == 42


def test_limits():
    assert [number({"n": "-5"}, "n"), number({"n": "500"}, "n")] == [0, 100]


def test_own_limits():
    assert number({"n": "7"}, "n", low=10, high=20) == 10
