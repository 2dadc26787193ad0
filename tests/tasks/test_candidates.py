"""What could make a task is told from the archives alone."""

from __future__ import annotations

import pytest

from agentgym.tasks.candidates import candidates, releases
from agentgym.tasks.pypi import SourceUnavailable, index_files


def test_final_releases_are_listed_in_the_order_of_versions(index):
    for version in ("1.10", "1.2", "2.0rc1", "not-a-version"):
        index.publish(version, index.new_files)

    assert releases("Evenly", index_files("Evenly")) == ["1.0", "1.1", "1.2", "1.10"]


def test_a_pair_that_mends_source_and_tests_is_a_candidate(index):
    (found,) = candidates("evenly")

    assert (found.old, found.new, found.reason) == ("1.0", "1.1", "")
    assert (found.source_lines, found.test_lines) == (3, 14)


def test_why_a_pair_is_none_is_said(index):
    index.publish("1.2", {name: data for name, data in index.new_files.items() if "test" not in name})
    index.publish("1.3", {**index.new_files, "evenly.py": b"def is_even(n):\n    return True\n"})
    index.publish("1.4", index.new_files)

    reasons = [found.reason for found in candidates("evenly", last=3)]

    assert reasons[0] == "the source distribution of 1.2 ships no tests"
    assert reasons[2] == "the tests did not change"


def test_an_unknown_package_is_named(index):
    with pytest.raises(SourceUnavailable, match="no configured package index offers nothing-like-it"):
        list(candidates("nothing-like-it"))
