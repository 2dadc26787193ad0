from merging import common, merge, merge_sort


def test_merge():
    assert merge([1, 4], [2, 3, 9]) == [1, 2, 3, 4, 9]


def test_left_over():
    assert merge([1, 7, 8], [2]) == [1, 2, 7, 8]


def test_equal_values_of_the_left_first():
    assert [type(value) for value in merge([1], [1.0])] == [int, float]


def test_merge_sort():
    assert merge_sort([3, 1, 2, 5, 4]) == [1, 2, 3, 4, 5]


def test_sort_one():
    assert merge_sort([7]) == [7]


def test_common():
    assert common([1, 2, 4, 6], [2, 3, 6]) == [2, 6]


def test_nothing_in_common():
    assert common([1], [2]) == []
