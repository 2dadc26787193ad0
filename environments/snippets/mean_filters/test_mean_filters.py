import pytest
from mean_filters import clipped, normalised, outliers, trimmed_mean


def test_clipped():
    assert clipped([-3, 2, 9], 0, 5) == [0, 2, 5]


def test_trimmed_mean():
    assert trimmed_mean([100, 2, 4, 0]) == 3


def test_cut_more():
    assert trimmed_mean([0, 1, 5, 8, 99], cut=2) == 5


def test_nothing_left():
    with pytest.raises(ValueError):
        trimmed_mean([1, 2])


def test_outliers():
    assert outliers([1, 2, 1, 2, 1, 30]) == [30]


def test_low_outlier():
    assert outliers([10, 11, 10, 11, 10, -50]) == [-50]


def test_other_factor():
    assert outliers([0, 0, 4, 4], factor=1) == []


def test_normalised():
    assert normalised([2, 4, 6]) == [0.0, 0.5, 1.0]


def test_all_equal():
    assert normalised([3, 3]) == [0.0, 0.0]
