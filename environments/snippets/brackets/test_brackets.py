from brackets import balanced, depth


def test_balanced():
    assert balanced("a(b[c]{d})")
    assert balanced("")
    assert not balanced("(]")
    assert not balanced("(")
    assert not balanced(")")
    assert not balanced("([)]")


def test_depth():
    assert depth("") == 0
    assert depth("()()") == 1
    assert depth("(()(()))") == 3
