from slugs import slug, unique


def test_slug():
    assert slug("Hello, World!") == "hello-world"


def test_no_hyphen_in_front():
    assert slug("  (Draft) 2") == "draft-2"


def test_limit():
    assert slug("one two three", limit=8) == "one-two"


def test_default_limit():
    assert len(slug("x" * 30)) == 20


def test_unique():
    assert unique("post", ["page"]) == "post"


def test_taken():
    assert unique("post", ["post"]) == "post-2"


def test_taken_twice():
    assert unique("post", ["post", "post-2"]) == "post-3"
