from morse import decode, duration, encode


def test_encode():
    assert encode("SOS") == "... --- ..."


def test_words():
    assert encode("i sit") == ".. / ... .. -"


def test_unknown_letters_are_left_out():
    assert encode("tea!") == "- . .-"


def test_decode():
    assert decode("... .. - / - .. .") == "sit tie"


def test_unknown_sign():
    assert decode(".... .") == "?e"


def test_duration():
    assert duration("...") == 5


def test_duration_of_a_dash():
    assert duration("-.") == 5


def test_duration_of_nothing():
    assert duration("") == 0
