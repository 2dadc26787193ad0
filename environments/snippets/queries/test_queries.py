from queries import build_query, first, parse_query


def test_parse():
    assert parse_query("a=1&b=2&a=3") == {"a": ["1", "3"], "b": ["2"]}
    assert parse_query("?x=1=2&flag&") == {"x": ["1=2"], "flag": [""]}
    assert parse_query("") == {}


def test_build():
    assert build_query({"a": ["1", "3"], "flag": [""]}) == "a=1&a=3&flag"


def test_first():
    assert first("a=1&a=2", "a") == "1"
    assert first("a=1", "b", "none") == "none"
