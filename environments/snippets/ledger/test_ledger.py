from ledger import balances, settle


def test_balances():
    assert balances([("ann", 300, ["ann", "bob", "eve"])]) == {"ann": 200, "bob": -100, "eve": -100}


def test_two_payments():
    paid = [("ann", 100, ["ann", "bob"]), ("bob", 60, ["ann", "bob"])]
    assert balances(paid) == {"ann": 20, "bob": -20}


def test_settle():
    assert settle({"ann": 200, "bob": -100, "eve": -100}) == [("eve", "ann", 100), ("bob", "ann", 100)]


def test_two_creditors():
    assert settle({"ann": 30, "bob": 20, "eve": -50}) == [("eve", "bob", 20), ("eve", "ann", 30)]


def test_nothing_to_settle():
    assert settle({"ann": 0}) == []
