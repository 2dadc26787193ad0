import pytest
from shopping import discount, shipping, total


def test_total():
    assert total([("tea", 300, 2), ("jam", 250, 1)]) == 850


def test_empty_list():
    assert total([]) == 0


def test_discount():
    assert discount(999, 10) == 900


def test_all_off():
    assert discount(500, 100) == 0


@pytest.mark.parametrize("percent", [-1, 101])
def test_no_discount(percent):
    with pytest.raises(ValueError):
        discount(100, percent)


def test_no_percent():
    assert discount(100, 0) == 100


def test_shipping():
    assert shipping(4999) == 490


def test_free_shipping():
    assert shipping(5000) == 0


def test_other_limit():
    assert shipping(100, free_from=50) == 0
