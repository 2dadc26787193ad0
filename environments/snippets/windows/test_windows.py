from windows import largest_sum, longest_distinct


def test_largest_sum():
    assert largest_sum([1, 9, 2, 8, 1], 2) == 11


def test_largest_sum_at_the_end():
    assert largest_sum([1, 1, 5, 6], 2) == 11


def test_whole_list():
    assert largest_sum([3, -1], 2) == 2


def test_falling():
    assert largest_sum([9, 5, 1], 2) == 14


def test_longest_distinct():
    assert longest_distinct("abcabcbb") == 3


def test_all_the_same():
    assert longest_distinct("zzz") == 1


def test_start_never_goes_back():
    assert longest_distinct("abba") == 2


def test_no_text():
    assert longest_distinct("") == 0
