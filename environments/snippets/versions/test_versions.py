from versions import bump, compare, newest, parse


def test_parse():
    assert parse("1.10.0") == [1, 10]
    assert parse("0") == [0]


def test_compare():
    assert compare("1.2", "1.10") == -1
    assert compare("2.0", "2") == 0
    assert compare("1.1", "1.0.9") == 1


def test_newest():
    assert newest(["1.9", "1.10", "1.2"]) == "1.10"
    assert newest([]) is None


def test_bump():
    assert bump("1.2.3", 0) == "2.0.0"
    assert bump("1.2.3", 1) == "1.3.0"
    assert bump("1.2.3", 2) == "1.2.4"
