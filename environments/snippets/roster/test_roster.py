import pytest
from roster import fair, hours, on_duty, swap

PLAN = [["ann", "bob"], ["eve", "ann"], ["bob", "eve"]]


def test_on_duty():
    assert [on_duty(["ann", "bob", "eve"], day) for day in range(4)] == [["ann"], ["bob"], ["eve"], ["ann"]]


def test_two_shifts():
    assert on_duty(["ann", "bob", "eve"], 1, shifts=2) == ["eve", "ann"]


def test_hours():
    assert hours(PLAN, "ann") == 16


def test_short_days():
    assert hours(PLAN, "eve", 5) == 10


def test_fair():
    assert fair(PLAN, ["ann", "bob", "eve"])


def test_unfair():
    assert not fair([["ann"], ["ann"]], ["ann", "bob"])


def test_one_day_more():
    assert fair([["ann"]], ["ann", "bob"])


def test_swap():
    assert swap(PLAN, 1, "ann", "bob") == [["ann", "bob"], ["eve", "bob"], ["bob", "eve"]]


def test_works_already():
    with pytest.raises(ValueError):
        swap(PLAN, 0, "ann", "bob")
