from rectangles import area, contains, overlap, union_area


def test_area():
    assert area((1, 2, 4, 6)) == 12


def test_turned_over():
    assert area((4, 0, 1, 2)) == 0
    assert area((0, 2, 3, 1)) == 0


def test_overlap():
    assert overlap((0, 0, 4, 4), (2, 1, 6, 3)) == (2, 1, 4, 3)


def test_apart():
    assert area(overlap((0, 0, 1, 1), (2, 2, 3, 3))) == 0


def test_contains():
    assert contains((1, 1, 3, 3), 1, 1)
    assert contains((1, 1, 3, 3), 2, 2)


def test_right_edge_is_outside():
    assert not contains((1, 1, 3, 3), 3, 2)
    assert not contains((1, 1, 3, 3), 2, 3)


def test_left_of_it():
    assert not contains((1, 1, 3, 3), 0, 2)
    assert not contains((1, 1, 3, 3), 2, 0)


def test_union_area():
    assert union_area((0, 0, 2, 2), (1, 1, 3, 3)) == 7
