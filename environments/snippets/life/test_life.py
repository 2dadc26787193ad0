from life import around, generations, is_still, step

BLINKER = {(0, 1), (1, 1), (2, 1)}
BLOCK = {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_around():
    assert len(around((5, 5))) == 8
    assert (5, 5) not in around((5, 5))
    assert (4, 6) in around((5, 5))


def test_step():
    assert step(BLINKER) == {(1, 0), (1, 1), (1, 2)}


def test_lone_cell_dies():
    assert step({(0, 0)}) == set()


def test_birth():
    assert (1, 1) in step({(0, 0), (1, 0), (0, 1)})


def test_too_many():
    assert (1, 1) not in step(BLINKER | {(1, 0), (1, 2)})


def test_generations():
    assert generations(BLINKER, 2) == BLINKER


def test_still():
    assert is_still(BLOCK)


def test_not_still():
    assert not is_still(BLINKER)
