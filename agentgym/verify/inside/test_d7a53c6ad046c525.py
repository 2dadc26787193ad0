
import unittest
import pytest

def test_assert_d3246643a41d54eb():
    left, right = "d3246643a41d54eb", "fb2ff2711ca08e76"
    assert left == right

def test_raise_d3246643a41d54eb():
    raise RuntimeError("fb2ff2711ca08e76")

def test_raises_d3246643a41d54eb():
    with pytest.raises(ValueError):
        pass

class Testd3246643a41d54eb(unittest.TestCase):
    def test_equal_d3246643a41d54eb(self):
        self.assertEqual("d3246643a41d54eb", "fb2ff2711ca08e76")

    def test_true_d3246643a41d54eb(self):
        self.assertTrue("d3246643a41d54eb" == "fb2ff2711ca08e76")
