from stock import all_rises, best_trade, drawdown


def test_best_trade():
    assert best_trade([7, 1, 5, 3, 6]) == 5


def test_falling():
    assert best_trade([5, 4, 3]) == 0


def test_low_at_the_end():
    assert best_trade([3, 8, 1]) == 5


def test_all_rises():
    assert all_rises([1, 5, 3, 6]) == 7


def test_no_rises():
    assert all_rises([3, 2]) == 0


def test_drawdown():
    assert drawdown([10, 20, 15, 18]) == 25


def test_second_peak():
    assert drawdown([10, 9, 40, 20]) == 50


def test_rising():
    assert drawdown([1, 2, 3]) == 0
