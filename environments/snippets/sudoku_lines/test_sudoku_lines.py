from sudoku_lines import columns, complete, conflicts, missing, solved


def test_complete():
    assert complete([3, 1, 2])


def test_not_complete():
    assert not complete([1, 1, 2])


def test_missing():
    assert missing([0, 2, 0, 4], 4) == [1, 3]


def test_nothing_missing():
    assert missing([1, 2], 2) == []


def test_columns():
    assert columns([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]


def test_conflicts():
    assert conflicts([0, 5, 3, 5, 0, 5]) == [5]


def test_solved():
    assert solved([[1, 2], [2, 1]])


def test_columns_count_too():
    assert not solved([[1, 2], [1, 2]])


def test_rows_count_too():
    assert not solved([[1, 1], [2, 2]])
