from permissions import may_write, to_mode, to_text


def test_to_text():
    assert to_text(0o750) == "rwxr-x---"


def test_to_text_others():
    assert to_text(0o604) == "rw----r--"


def test_to_mode():
    assert to_mode("rw-r--r-x") == 0o645


def test_round_trip():
    assert to_mode(to_text(0o531)) == 0o531


def test_owner_may_write():
    assert may_write("rw-r--r--") is True


def test_group_may_write():
    assert may_write("r--rw-r--", "group") is True


def test_others_may_not():
    assert may_write("rwxrwxr-x", "others") is False
