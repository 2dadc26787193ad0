from sentences import average_length, questions, split


def test_split():
    assert split("One. Two? Three!") == ["One.", "Two?", "Three!"]


def test_without_an_end():
    assert split("One. And more") == ["One.", "And more"]


def test_average_length():
    assert average_length("I am. You are not.") == 2.5


def test_average_of_nothing():
    assert average_length("  ") == 0


def test_questions():
    assert questions("Who? Me. Why?") == ["Who?", "Why?"]
