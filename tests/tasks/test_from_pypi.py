"""What makes a release pair no task is said before anything is built."""

from __future__ import annotations

import pytest

from agentgym.tasks import TaskError
from agentgym.tasks.from_pypi import PairOptions, difficulty_of, draft_of, licence_of, pin_pair
from agentgym.tasks.pypi import SourceUnavailable


def test_releases_are_pinned_by_the_indexs_digests(index):
    source = pin_pair("Evenly", "1.0", "1.1")

    assert (source.old_filename, source.old_sha256) == ("evenly-1.0.tar.gz", index.sha256("evenly-1.0.tar.gz"))
    assert source.new_sha256 == index.sha256("evenly-1.1.tar.gz")


def test_a_release_without_a_source_distribution_is_named(index):
    with pytest.raises(SourceUnavailable, match=r"no index offers a source distribution of evenly 2\.0"):
        pin_pair("evenly", "1.0", "2.0")


def test_the_draft_knows_size_difficulty_and_test_owned_paths(index):
    draft = draft_of(pin_pair("evenly", "1.0", "1.1"), PairOptions(split="held-out"))

    assert draft.id == "evenly-1.0"
    assert draft.test_paths == ("conftest.py", "test_evenly.py", "tests/**")
    assert (draft.python_path, draft.difficulty, draft.size, draft.split) == (".", "easy", "tiny", "held-out")


def test_a_release_without_tests_makes_no_task(index):
    files = {name: data for name, data in index.new_files.items() if "test" not in name}
    index.publish("1.2", files)

    with pytest.raises(TaskError, match="ships no tests"):
        draft_of(pin_pair("evenly", "1.0", "1.2"), PairOptions())


def test_releases_that_differ_in_tests_and_docs_only_make_no_task(index):
    source = {name: data for name, data in index.old_files.items() if "test" not in name}
    tests = {"README.md": b"newer\n", "tests/test_evenly.py": index.new_files["tests/test_evenly.py"]}
    index.publish("1.3", {**source, **tests})

    with pytest.raises(TaskError, match="do not differ in source files"):
        draft_of(pin_pair("evenly", "1.0", "1.3"), PairOptions())


def test_a_rewrite_is_no_task(index):
    index.publish("3.0", {**index.new_files, "more.py": b"x = 1\n" * 500})

    with pytest.raises(TaskError, match="changed source lines are more than one task"):
        draft_of(pin_pair("evenly", "1.0", "3.0"), PairOptions())


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: MIT\nLicense: other\n", "MIT"),
        ("Classifier: License :: OSI Approved :: BSD License\n", "BSD License"),
        ("Name: x\n", "unknown"),
    ],
)
def test_the_licence_is_what_the_metadata_says(tmp_path, metadata, licence):
    (tmp_path / "PKG-INFO").write_text(metadata)

    assert licence_of(tmp_path) == licence


def test_difficulty_grows_with_the_change():
    assert [difficulty_of(lines) for lines in (1, 12, 13, 60, 61)] == ["easy", "easy", "medium", "medium", "hard"]
