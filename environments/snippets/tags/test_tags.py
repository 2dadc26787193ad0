from tags import escape, strip_tags, tag


def test_strip_tags():
    assert strip_tags("<b>bold</b> text") == "bold text"


def test_no_tags():
    assert strip_tags("plain") == "plain"


def test_escape():
    assert escape("a < b & c > d") == "a &lt; b &amp; c &gt; d"


def test_escape_once():
    assert escape("<") == "&lt;"


def test_tag():
    assert tag("p", "a & b") == "<p>a &amp; b</p>"


def test_attributes():
    assert tag("a", "x", title="<", href="u") == '<a href="u" title="&lt;">x</a>'
