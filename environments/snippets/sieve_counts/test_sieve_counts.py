from sieve_counts import collatz, digital_root, divisors, is_perfect


def test_divisors():
    assert divisors(12) == [1, 2, 3, 4, 6, 12]


def test_divisors_of_one():
    assert divisors(1) == [1]


def test_perfect():
    assert [number for number in range(1, 30) if is_perfect(number)] == [6, 28]


def test_collatz():
    assert collatz(6) == 8


def test_collatz_of_one():
    assert collatz(1) == 0


def test_digital_root():
    assert digital_root(9875) == 2


def test_digital_root_of_ten():
    assert digital_root(10) == 1
