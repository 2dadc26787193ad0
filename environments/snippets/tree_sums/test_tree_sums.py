from tree_sums import height, leaves, path_to, total

TREE = (1, [(2, []), (3, [(4, []), (5, [(6, [])])])])


def test_total():
    assert total(TREE) == 21


def test_height():
    assert height(TREE) == 4


def test_height_of_a_leaf():
    assert height((7, [])) == 1


def test_leaves():
    assert leaves(TREE) == [2, 4, 6]


def test_path():
    assert path_to(TREE, 5) == [1, 3, 5]


def test_no_path():
    assert path_to(TREE, 9) == []
