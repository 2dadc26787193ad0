from primes import factors, sieve


def test_sieve():
    assert sieve(1) == []
    assert sieve(2) == [2]
    assert sieve(30) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert sieve(49)[-1] == 47


def test_factors():
    assert factors(1) == []
    assert factors(12) == [2, 2, 3]
    assert factors(49) == [7, 7]
    assert factors(97) == [97]
    assert factors(901255) == [5, 17, 23, 461]
