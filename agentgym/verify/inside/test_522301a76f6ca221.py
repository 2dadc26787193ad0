
import unittest
import pytest

def test_assert_65728ee6b4f01ad4():
    left, right = "65728ee6b4f01ad4", "60201869efecc293"
    assert left == right

def test_raise_65728ee6b4f01ad4():
    raise RuntimeError("60201869efecc293")

def test_raises_65728ee6b4f01ad4():
    with pytest.raises(ValueError):
        pass

class Test65728ee6b4f01ad4(unittest.TestCase):
    def test_equal_65728ee6b4f01ad4(self):
        self.assertEqual("65728ee6b4f01ad4", "60201869efecc293")

    def test_true_65728ee6b4f01ad4(self):
        self.assertTrue("65728ee6b4f01ad4" == "60201869efecc293")
