from justify import greedy_lines, justified


def test_lines():
    assert greedy_lines(["one", "two", "three"], 7) == [["one", "two"], ["three"]]


def test_exact_width():
    assert greedy_lines(["ab", "cd"], 5) == [["ab", "cd"]]


def test_too_narrow():
    assert greedy_lines(["ab", "cd"], 4) == [["ab"], ["cd"]]


def test_long_word():
    assert greedy_lines(["longword", "a"], 4) == [["longword"], ["a"]]


def test_three_lines():
    assert greedy_lines(["aa", "b", "cc", "d", "ee"], 4) == [["aa", "b"], ["cc", "d"], ["ee"]]


def test_justified():
    assert justified(["a", "b", "c"], 7) == "a  b  c"


def test_more_on_the_left():
    assert justified(["a", "b", "c"], 6) == "a  b c"


def test_one_word():
    assert justified(["a"], 3) == "a  "
