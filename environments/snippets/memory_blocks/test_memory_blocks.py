from memory_blocks import allocate, largest, release


def test_allocate():
    assert allocate([(0, 10)], 4) == (0, [(4, 6)])


def test_exact_fit():
    assert allocate([(0, 4), (8, 2)], 4) == (0, [(8, 2)])


def test_first_that_fits():
    assert allocate([(0, 2), (5, 9), (20, 9)], 3) == (5, [(0, 2), (8, 6), (20, 9)])


def test_nothing_fits():
    assert allocate([(0, 2)], 3) == (None, [(0, 2)])


def test_release():
    assert release([(0, 2)], 5, 3) == [(0, 2), (5, 3)]


def test_release_joins():
    assert release([(0, 2), (5, 5)], 2, 3) == [(0, 10)]


def test_largest():
    assert largest([(0, 2), (5, 9)]) == 9


def test_nothing_free():
    assert largest([]) == 0
