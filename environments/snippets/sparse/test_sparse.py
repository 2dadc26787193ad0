from sparse import add, dense, dot, scaled


def test_dot():
    assert dot({0: 2, 5: 3}, {5: 4, 7: 1}) == 12


def test_dot_of_nothing():
    assert dot({0: 1}, {1: 1}) == 0


def test_add():
    assert add({0: 1, 2: 3}, {2: 4}) == {0: 1, 2: 7}


def test_add_new():
    assert add({}, {3: 5}) == {3: 5}


def test_zero_is_left_out():
    assert add({1: 2, 4: 1}, {1: -2}) == {4: 1}


def test_scaled():
    assert scaled({1: 2}, 3) == {1: 6}


def test_scaled_by_zero():
    assert scaled({1: 2}, 0) == {}


def test_dense():
    assert dense({1: 7}, 3) == [0, 7, 0]
