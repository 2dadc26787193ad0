from bits import is_power_of_two, ones, parity, reverse


def test_ones():
    assert ones(0b101101) == 4


def test_no_ones():
    assert ones(0) == 0


def test_powers_of_two():
    assert [number for number in range(10) if is_power_of_two(number)] == [1, 2, 4, 8]


def test_reverse():
    assert reverse(0b00000110) == 0b01100000


def test_reverse_narrow():
    assert reverse(0b1011, 4) == 0b1101


def test_parity():
    assert [parity(7), parity(5)] == [1, 0]
