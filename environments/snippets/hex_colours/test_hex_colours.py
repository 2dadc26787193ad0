import pytest
from hex_colours import grey, parse, show


def test_parse():
    assert parse("#ff8000") == (255, 128, 0)


def test_parse_short():
    assert parse("#fa0") == (255, 170, 0)


@pytest.mark.parametrize("text", ["#ff", "#ff80000"])
def test_no_colour(text):
    with pytest.raises(ValueError):
        parse(text)


def test_show():
    assert show(255, 128, 0) == "#ff8000"


def test_show_clips():
    assert show(300, -5, 16) == "#ff0010"


def test_grey():
    assert grey("#ff0000") == "#4c4c4c"


def test_grey_of_green():
    assert grey("#00ff00") == "#969696"
