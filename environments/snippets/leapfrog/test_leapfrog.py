from leapfrog import can_cross, fewest_jumps


def test_can_cross():
    assert can_cross([True, False, True], 2) is True


def test_gap_too_wide():
    assert can_cross([True, False, False, True], 2) is False


def test_last_pad_missing():
    assert can_cross([True, True, False], 2) is False


def test_single_pad():
    assert can_cross([True], 1) is True


def test_fewest_jumps():
    assert fewest_jumps(10, 3) == 4


def test_exact_jumps():
    assert fewest_jumps(9, 3) == 3
