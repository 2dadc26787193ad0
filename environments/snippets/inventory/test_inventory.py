import pytest
from inventory import Inventory


def filled():
    inventory = Inventory()
    inventory.add("nails", 5)
    inventory.add("hammer")
    inventory.add("screws", 5)
    inventory.add("hammer")
    return inventory


def test_add():
    assert filled().count("hammer") == 2
    assert filled().count("saw") == 0


def test_remove():
    inventory = filled()
    inventory.remove("nails", 3)
    inventory.remove("hammer")
    inventory.remove("hammer")
    assert (inventory.count("nails"), inventory.count("hammer")) == (2, 0)
    assert "hammer" not in inventory.running_out(100)
    with pytest.raises(KeyError):
        inventory.remove("nails", 3)


def test_running_out():
    assert filled().running_out(5) == ["hammer"]
    assert filled().running_out(6) == ["hammer", "nails", "screws"]


def test_most_common():
    assert filled().most_common() == "nails"
    assert Inventory().most_common() is None
