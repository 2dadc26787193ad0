"""Where text stands, and what is nearest where it does not."""

from harness.tools.match import apart, near_miss, occurrences


def test_every_place_counts_overlapping_ones_too():
    assert occurrences("aaa", "aa") == [(0, 2), (1, 3)]
    assert apart([(0, 2), (1, 3), (3, 5)]) == [(0, 2), (3, 5)]


def test_line_endings_do_not_hide_a_match_but_tabs_do():
    assert occurrences("a\r\nb\n", "a\nb") == [(0, 4)]
    assert occurrences("a\nb", "a\r\nb") == [(0, 3)]
    assert not occurrences("\ta", "    a")


def test_a_near_miss_shows_the_lines_as_they_are():
    text = "def f():\n\treturn 1\n"

    assert "differ from it only in blanks" in near_miss(text, "def f():\n    return 1")
    assert "\t\treturn 1" in near_miss(text, "def f():\n    return 1")
    assert "most similar lines" in near_miss(text, "def g():\n\treturn 2")
    assert "Nothing similar" in near_miss(text, "zzzzzzzzzzzzzzzzz")
