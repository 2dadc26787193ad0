"""Clocks, durations, addresses, pids and random names may differ between two runs; nothing else may."""

from __future__ import annotations

import pytest

from harness.replay.normalise import normalise


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("3 passed in 0.12s", "3 passed in 1.05s"),
        ("Sun Nov 29 19:13:26 UTC 2026", "Mon Nov 30 08:00:01 UTC 2026"),
        ("2026-11-29T19:13:26.123Z start", "2026-11-30T01:02:03.9Z start"),
        ("<object at 0x7f3a12b2c0d0>", "<object at 0x7ffee012c0d0>"),
        ("[1] 4242", "[1] 77"),
        ("pid=31 up", "pid=902 up"),
        ("wrote /tmp/tmpk3x_91ab/out.txt", "wrote /tmp/tmpzz81qqab/out.txt"),
        ("real\t0m1.204s", "real\t0m0.900s"),
        ("-rw-r--r-- 1 a a 10 Nov 29 19:13 x.py", "-rw-r--r-- 1 a a 10 Nov  3 07:00 x.py"),
    ],
)
def test_what_means_nothing_is_normalised(then: str, now: str) -> None:
    assert then != now
    assert normalise(then) == normalise(now)


@pytest.mark.parametrize(
    ("then", "now"),
    [("3 passed", "2 passed"), ("x = 1.5", "x = 2.5"), ("line 10", "line 11"), ("0x1f", "0x2f"), ("/tmp/a", "/tmp/b")],
)
def test_what_means_something_is_not(then: str, now: str) -> None:
    assert normalise(then) != normalise(now)
