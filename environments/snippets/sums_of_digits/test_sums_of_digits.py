from sums_of_digits import digits, is_armstrong, is_happy, reversed_number


def test_digits():
    assert digits(-305) == [3, 0, 5]


def test_armstrong():
    assert [number for number in range(100, 400) if is_armstrong(number)] == [153, 370, 371]


def test_one_digit():
    assert is_armstrong(7)


def test_happy():
    assert [number for number in range(1, 20) if is_happy(number)] == [1, 7, 10, 13, 19]


def test_reversed():
    assert reversed_number(120) == 21


def test_reversed_negative():
    assert reversed_number(-45) == -54
