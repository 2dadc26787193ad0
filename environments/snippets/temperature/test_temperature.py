from temperature import feels, to_celsius, to_fahrenheit


def test_to_fahrenheit():
    assert to_fahrenheit(100) == 212


def test_to_celsius():
    assert to_celsius(212) == 100


def test_freezing_point():
    assert to_fahrenheit(0) == 32


def test_freezing():
    assert feels(-1) == "freezing"


def test_zero_is_cold():
    assert feels(0) == "cold"


def test_mild():
    assert [feels(15), feels(25)] == ["mild", "mild"]


def test_hot():
    assert feels(26) == "hot"
