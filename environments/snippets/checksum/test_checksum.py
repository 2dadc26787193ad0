from checksum import isbn10_valid, luhn_valid


def test_luhn():
    assert luhn_valid("4539 3195 0343 6467")
    assert not luhn_valid("8273 1232 7352 0569")
    assert luhn_valid("059")
    assert not luhn_valid("0")
    assert luhn_valid("91")


def test_isbn():
    assert isbn10_valid("3-598-21508-8")
    assert isbn10_valid("3-598-21507-X")
    assert not isbn10_valid("3-598-21508-9")
    assert not isbn10_valid("3-598-2X507-9")
    assert not isbn10_valid("3-598-21507")
