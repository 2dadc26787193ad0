import pytest
from ip_address import same_network, to_number, to_text


def test_to_number():
    assert to_number("1.2.3.4") == 16909060


def test_last():
    assert to_number("0.0.0.255") == 255


def test_first():
    assert to_number("0.0.1.0") == 256


@pytest.mark.parametrize("text", ["1.2.3", "1.2.3.256", "1.2.3.-4"])
def test_no_address(text):
    with pytest.raises(ValueError):
        to_number(text)


def test_to_text():
    assert to_text(16909060) == "1.2.3.4"


def test_same_network():
    assert same_network("10.0.0.1", "10.0.0.200")


def test_other_network():
    assert not same_network("10.0.0.1", "10.0.1.1")


def test_wide_network():
    assert same_network("10.0.0.1", "10.9.1.1", bits=8)
