from grades import average, letter, passed


def test_letters():
    assert [letter(points) for points in (90, 89, 70, 60, 59)] == ["A", "B", "C", "D", "F"]


def test_average():
    assert average([50, 70]) == 60


def test_drop_lowest():
    assert average([10, 80, 60], drop_lowest=True) == 70


def test_keep_the_only_one():
    assert average([40], drop_lowest=True) == 40


def test_drop_one_of_two():
    assert average([40, 60], drop_lowest=True) == 60


def test_passed():
    assert passed([50, 70]) is True


def test_zero_fails():
    assert passed([0, 150]) is False


def test_too_few_points():
    assert passed([50, 60]) is False


def test_other_limit():
    assert passed([50, 60], needed=55)
