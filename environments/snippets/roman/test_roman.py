import pytest
from roman import from_roman, to_roman


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (40, "XL"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")],
)
def test_both_ways(number, text):
    assert to_roman(number) == text
    assert from_roman(text) == number


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_out_of_range(number):
    with pytest.raises(ValueError):
        to_roman(number)


@pytest.mark.parametrize("text", ["", "IIX?", "ABC"])
def test_not_a_numeral(text):
    with pytest.raises(ValueError):
        from_roman(text)
