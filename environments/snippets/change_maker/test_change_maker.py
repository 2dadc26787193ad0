from change_maker import change, price_text, with_tax


def test_change():
    assert change(388) == {200: 1, 100: 1, 50: 1, 20: 1, 10: 1, 5: 1, 2: 1, 1: 1}


def test_two_of_a_kind():
    assert change(40) == {20: 2}


def test_other_coins():
    assert change(7, [5, 1]) == {5: 1, 1: 2}


def test_price():
    assert price_text(1205) == "12.05 EUR"


def test_negative_price():
    assert price_text(-150, "USD") == "-1.50 USD"


def test_tax():
    assert with_tax(1000) == 1190


def test_tax_rounds():
    assert with_tax(3, 50) == 5
