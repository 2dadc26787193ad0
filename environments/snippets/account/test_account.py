import pytest
from account import Account


def test_deposit_and_withdraw():
    account = Account()
    account.deposit(10)
    assert account.withdraw(10) is True
    assert account.withdraw(1) is False
    assert account.balance == 0


def test_limit():
    account = Account(limit=5)
    assert account.withdraw(5)
    assert not account.withdraw(1)
    assert account.balance == -5


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts(amount):
    with pytest.raises(ValueError):
        Account().deposit(amount)
    with pytest.raises(ValueError):
        Account().withdraw(amount)


def test_transfer():
    left, right = Account(), Account()
    left.deposit(3)
    assert left.transfer(right, 2)
    assert not left.transfer(right, 2)
    assert (left.balance, right.balance) == (1, 2)


def test_history():
    account = Account()
    account.deposit(2)
    account.deposit(3)
    account.withdraw(1)
    assert account.total_in() == 5
    assert account.history == [("deposit", 2), ("deposit", 3), ("withdraw", 1)]
