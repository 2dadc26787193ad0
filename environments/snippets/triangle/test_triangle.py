from triangle import is_right, is_triangle, kind, perimeter_with


def test_is_triangle():
    assert is_triangle(3, 4, 5)


def test_too_long():
    assert not any([is_triangle(1, 1, 3), is_triangle(3, 1, 1), is_triangle(1, 3, 1)])


def test_flat():
    assert not any([is_triangle(1, 2, 3), is_triangle(3, 1, 2), is_triangle(2, 3, 1)])


def test_kinds():
    assert [kind(2, 2, 2), kind(2, 2, 3), kind(2, 3, 4)] == ["equilateral", "isosceles", "scalene"]


def test_no_kind():
    assert kind(1, 2, 9) == "none"


def test_right():
    assert is_right(5, 3, 4)


def test_not_right():
    assert not is_right(2, 3, 4)


def test_perimeter():
    assert perimeter_with(3, 4, 10) == 13


def test_perimeter_with_limit():
    assert perimeter_with(3, 4, 5) == 12


def test_no_perimeter():
    assert perimeter_with(1, 9, 5) is None
