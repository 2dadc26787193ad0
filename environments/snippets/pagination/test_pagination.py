import pytest
from pagination import links, page, pages


def test_pages():
    assert pages(21, 10) == 3


def test_full_pages():
    assert pages(20, 10) == 2


def test_empty_list():
    assert pages(0, 10) == 1


def test_page():
    assert page([1, 2, 3, 4, 5], 2, 2) == [3, 4]


def test_last_page():
    assert page([1, 2, 3, 4, 5], 3, 2) == [5]


@pytest.mark.parametrize("number", [0, 4])
def test_no_page(number):
    with pytest.raises(IndexError):
        page([1, 2, 3, 4, 5], number, 2)


def test_default_size():
    assert page(list(range(12)), 2) == [10, 11]


def test_links():
    assert links(5, 9) == [1, None, 4, 5, 6, None, 9]


def test_links_without_gap():
    assert links(2, 3) == [1, 2, 3]


def test_links_further_around():
    assert links(4, 7, around=2) == [1, 2, 3, 4, 5, 6, 7]
