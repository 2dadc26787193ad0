import pytest
from bases import digit_sum, from_base, to_base


@pytest.mark.parametrize(
    ("number", "base", "text"), [(10, 2, "1010"), (255, 16, "ff"), (-7, 3, "-21"), (0, 5, "0"), (35, 36, "z")]
)
def test_both_ways(number, base, text):
    assert to_base(number, base) == text
    assert from_base(text, base) == number


@pytest.mark.parametrize("base", [1, 37])
def test_bases(base):
    with pytest.raises(ValueError):
        to_base(5, base)


def test_digits():
    with pytest.raises(ValueError):
        from_base("12", 2)
    assert from_base("FF", 16) == 255


def test_digit_sum():
    assert digit_sum(1234) == 10
    assert digit_sum(-19) == 10
    assert digit_sum(7, 2) == 3
