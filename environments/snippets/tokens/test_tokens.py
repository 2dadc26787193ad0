import pytest
from tokens import evaluate, tokenize


def test_tokenize():
    assert tokenize("12+(3 * 4)") == [12, "+", "(", 3, "*", 4, ")"]
    with pytest.raises(ValueError):
        tokenize("1 / 2")


@pytest.mark.parametrize(
    ("text", "value"), [("1+2*3", 7), ("(1+2)*3", 9), ("10-4-3", 3), ("-2*-3", 6), ("2*(3-(4-5))", 8), ("7", 7)]
)
def test_evaluate(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize("text", ["", "1+", "(1", "1 2"])
def test_mistakes(text):
    with pytest.raises(ValueError):
        evaluate(text)
