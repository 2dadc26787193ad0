import pytest
from phone import digits, grouped, normal


def test_digits():
    assert digits("(030) 12-34") == "0301234"


def test_international():
    assert normal(" +43 1 234") == "+431234"


def test_two_zeros():
    assert normal("0043 1 234") == "+431234"


def test_national():
    assert normal("030 1234") == "+49301234"


def test_other_country():
    assert normal("01 234", country="43") == "+431234"


def test_no_area_code():
    with pytest.raises(ValueError):
        normal("1234")


def test_grouped():
    assert grouped("1234567") == "1 234 567"


def test_grouped_evenly():
    assert grouped("123456") == "123 456"


def test_pairs():
    assert grouped("12345", 2) == "1 23 45"
