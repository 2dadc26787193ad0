from polynomials import add, derivative, multiply, value


def test_value():
    assert value([1, 2, 3], 2) == 17


def test_constant():
    assert value([5], 9) == 5


def test_add():
    assert add([1, 2], [3, 4, 5]) == [4, 6, 5]


def test_add_shorter():
    assert add([1, 2, 3], [1]) == [2, 2, 3]


def test_multiply():
    assert multiply([1, 1], [1, -1]) == [1, 0, -1]


def test_multiply_by_number():
    assert multiply([1, 2, 3], [2]) == [2, 4, 6]


def test_derivative():
    assert derivative([7, 3, 2]) == [3, 4]
