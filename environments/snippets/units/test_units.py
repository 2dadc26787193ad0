from units import parse, show


def test_bytes():
    assert show(1023) == "1023 B"


def test_kilobytes():
    assert show(1536) == "1.5 KB"


def test_exactly_one():
    assert show(1024) == "1.0 KB"


def test_largest_unit():
    assert show(5 * 1024**4) == "5120.0 GB"


def test_gigabytes():
    assert show(2 * 1024**3) == "2.0 GB"


def test_parse():
    assert parse("1.5 KB") == 1536


def test_parse_small_letters():
    assert parse("2 mb") == 2 * 1024 * 1024


def test_parse_number():
    assert parse("12") == 12
