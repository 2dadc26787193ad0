"""The generator is held against pairs whose deciding tests are known, and every difference is shown."""

from __future__ import annotations

import json

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import TaskError, load_task, shipped_tasks
from agentgym.tasks.discovery import Discovery
from agentgym.tasks.pypi import SourceUnavailable, release_tree
from agentgym.tasks.rediscover import (
    Comparison,
    Reference,
    append_result,
    compare,
    comparison_table,
    listed_references,
    read_results,
    rediscover,
    shipped_references,
)

REFERENCE = Reference("evenly", "1.0", "1.1", frozenset({"t.py::a", "t.py::b"}), frozenset({"t.py::c"}), 1)


def test_the_same_tests_are_the_same():
    found = compare(REFERENCE, Discovery(("t.py::a", "t.py::b"), ("t.py::c",)))

    assert found.same
    assert (found.expected, found.found, found.pass_expected, found.pass_found) == (2, 2, 1, 1)


def test_differences_are_named():
    found = compare(REFERENCE, Discovery(("t.py::a", "t.py::[x|y]"), ("t.py::b",)))

    assert not found.same
    assert (found.missing, found.extra) == (("t.py::b",), ("t.py::[x|y]",))
    assert (found.lost, found.gained) == (("t.py::c",), ("t.py::b",))
    assert "only found here: `t.py::[x\\|y]`" in comparison_table([found])


def test_a_known_number_of_passing_tests_is_compared_as_a_number():
    reference = Reference("evenly", "1.0", "1.1", frozenset({"t.py::a"}), None, 7)

    found = compare(reference, Discovery(("t.py::a",), ("t.py::c",)))

    assert found.same
    assert (found.pass_expected, found.pass_found, found.lost) == (7, 1, ())


def test_results_are_kept_so_that_an_interrupted_run_goes_on(tmp_path):
    file = tmp_path / "runs/results.jsonl"
    results = [Comparison("a-1", "2", 1, 1, extra=("ü[\n]",)), Comparison("b-1", "2", 1, 0, error="no task")]
    for result in results:
        append_result(file, result)
    with file.open("a") as out:
        out.write('{"name": "c-1", "ne')

    assert list(read_results(file).values()) == results
    assert read_results(tmp_path / "none") == {}


def test_a_list_of_pairs_is_read(tmp_path):
    row = {"package": "p", "old": "1", "new": "2", "fail_to_pass": ["t::a"], "n_pass_to_pass": 3, "more": "ignored"}
    (tmp_path / "pairs.json").write_text(json.dumps([row]))
    (tmp_path / "broken.json").write_text("[{}]")

    assert listed_references(tmp_path / "pairs.json") == [Reference("p", "1", "2", frozenset({"t::a"}), None, 3)]
    with pytest.raises(TaskError, match="no list of pairs: KeyError"):
        listed_references(tmp_path / "broken.json")


@pytest.mark.parametrize("name", ["parse-1.22.1", "texttable-1.7.1"])
async def test_the_generator_finds_again_what_ships(name):
    (reference,) = shipped_references([load_task(root) for root in shipped_tasks() if root.name == name])
    source = load_task(next(root for root in shipped_tasks() if root.name == name)).material.source  # type: ignore[attr-defined]
    try:
        release_tree(source.package, source.new_filename, source.new_sha256)
        backend = await open_backend("auto", owner="tests of rediscovery")
    except (SourceUnavailable, BackendUnavailable) as error:
        pytest.skip(f"{name} cannot be generated here: {error}")
    try:
        found = await rediscover(reference, backend)
    finally:
        await backend.close()

    assert found.error == ""
    assert (found.missing, found.extra, found.lost, found.gained) == ((), (), (), ())
