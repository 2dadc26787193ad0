from quiz import hardest, score, streak


def test_score():
    assert score("abc", "abd") == 2


def test_penalty():
    assert score("abcc", "abdd", penalty=0.5) == 1


def test_no_answer():
    assert score(["a", None], "ab", penalty=1) == 1


def test_answer_after_none():
    assert score([None, "b"], "ab") == 1


def test_never_below_zero():
    assert score("xx", "ab", penalty=1) == 0


def test_hardest():
    assert hardest(["abc", "abd", "axc"], "abc") == 2


def test_first_of_the_hardest():
    assert hardest(["xbx", "abc"], "abc") == 1


def test_streak():
    assert streak("abxdef", "abcdef") == 3


def test_streak_is_not_the_last_one():
    assert streak("abcxe", "abcde") == 3
