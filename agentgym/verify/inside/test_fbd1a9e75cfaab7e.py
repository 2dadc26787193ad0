
import unittest
import pytest

def test_assert_63cbe6cd169e2772():
    left, right = "63cbe6cd169e2772", "38bf0a3e52a6bf49"
    assert left == right

def test_raise_63cbe6cd169e2772():
    raise RuntimeError("38bf0a3e52a6bf49")

def test_raises_63cbe6cd169e2772():
    with pytest.raises(ValueError):
        pass

class Test63cbe6cd169e2772(unittest.TestCase):
    def test_equal_63cbe6cd169e2772(self):
        self.assertEqual("63cbe6cd169e2772", "38bf0a3e52a6bf49")

    def test_true_63cbe6cd169e2772(self):
        self.assertTrue("63cbe6cd169e2772" == "38bf0a3e52a6bf49")
