from paths import extension, join, normal


def test_normal():
    assert normal("a//b/./c") == "a/b/c"


def test_up():
    assert normal("a/b/../c") == "a/c"


def test_up_from_the_root():
    assert normal("/../a") == "/a"


def test_up_beyond():
    assert normal("../../a") == "../../a"


def test_absolute():
    assert normal("/a/b/") == "/a/b"


def test_extension():
    assert extension("dir.d/file.tar.gz") == "gz"


def test_hidden_file():
    assert extension("home/.profile") == ""


def test_no_extension():
    assert extension("a.b/file") == ""


def test_join():
    assert join("a/", "b") == "a/b"


def test_join_absolute():
    assert join("a", "/b") == "/b"
