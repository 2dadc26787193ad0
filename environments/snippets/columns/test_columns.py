from columns import align, table, widths


def test_widths():
    assert widths([["a", "bbb"], ["cc", "d"]]) == [2, 3]


def test_align():
    assert align("ab", 4) == "ab  "


def test_align_right():
    assert align("ab", 4, right=True) == "  ab"


def test_table():
    assert table([["tea", "5"], ["jam", "12"]], numbers=[1]) == ["tea   5", "jam  12"]


def test_no_blanks_at_the_end():
    assert table([["a", "b"], ["c", "long"]]) == ["a  b", "c  long"]
