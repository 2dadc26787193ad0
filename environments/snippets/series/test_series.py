import pytest
from series import differences, median, moving_average


def test_moving_average():
    assert moving_average([1, 2, 3, 4], 2) == [1.5, 2.5, 3.5]
    assert moving_average([1, 2], 3) == []
    assert moving_average([4, 6], 1) == [4, 6]
    with pytest.raises(ValueError):
        moving_average([1], 0)


def test_median():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 3, 2]) == 2.5
    assert median([7]) == 7
    with pytest.raises(ValueError):
        median([])


def test_differences():
    assert differences([1, 4, 9, 16]) == [3, 5, 7]
    assert differences([5]) == []
