from vending import Machine


def ready(*coins, stock=1):
    machine = Machine({"tea": 120}, stock)
    for coin in coins:
        machine.insert(coin)
    return machine


def test_insert():
    assert ready().insert(50) is True


def test_no_coin():
    machine = ready()
    assert machine.insert(5) is False
    assert machine.credit == 0


def test_buy():
    machine = ready(200)
    assert machine.buy("tea") == 80
    assert machine.earned == 120


def test_exact_amount():
    assert ready(100, 20).buy("tea") == 0


def test_not_enough():
    machine = ready(100)
    assert machine.buy("tea") is None
    assert machine.credit == 100


def test_sold_out():
    machine = ready(200)
    machine.buy("tea")
    machine.insert(200)
    assert machine.buy("tea") is None


def test_two_in_stock():
    machine = ready(200, stock=2)
    machine.buy("tea")
    machine.insert(200)
    assert machine.buy("tea") == 80


def test_cancel():
    machine = ready(50, 10)
    assert machine.cancel() == 60
    assert machine.credit == 0
