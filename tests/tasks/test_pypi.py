"""A release pair yields its hidden tests and its gold patch, from pinned archives, once."""

from __future__ import annotations

import subprocess

import pytest

from agentgym.tasks.pypi import PypiMaterial, SourceUnavailable, split_files

TEST_PATHS = ("conftest.py", "tests/**", "test_evenly.py")


def test_hidden_tests_are_the_newer_releases_test_files_only(pair):
    hidden = PypiMaterial(pair, TEST_PATHS).hidden_tests()

    assert [path.relative_to(hidden).as_posix() for path in hidden.rglob("*") if path.is_file()] == [
        "tests/test_evenly.py"
    ]


def test_gold_patch_turns_the_old_source_into_the_new(pair, tmp_path):
    material = PypiMaterial(pair, TEST_PATHS)
    for name in split_files(material.old_tree(), TEST_PATHS)[0]:
        (tmp_path / name).write_bytes((material.old_tree() / name).read_bytes())

    subprocess.run(["git", "apply", "-"], input=material.gold_patch(), cwd=tmp_path, check=True)

    new = material.new_tree()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"evenly.py", "table.bin"}
    assert all((tmp_path / name).read_bytes() == (new / name).read_bytes() for name in ("evenly.py", "table.bin"))


def test_gold_patch_ignores_the_users_git_configuration(pair, tmp_path, monkeypatch):
    expected = PypiMaterial(pair, TEST_PATHS).gold_patch()
    (tmp_path / "gitconfig").write_text(
        "[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n[core]\n\tautocrlf = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")

    assert PypiMaterial(pair, TEST_PATHS).gold_patch() == expected


def test_releases_are_fetched_once(pair, index):
    PypiMaterial(pair, TEST_PATHS).gold_patch()
    PypiMaterial(pair, TEST_PATHS).hidden_tests()

    assert sorted(path for path in index.requests if "files" in path) == [
        "/files/evenly-1.0.tar.gz",
        "/files/evenly-1.1.tar.gz",
    ]


def test_a_release_that_is_gone_says_so_and_leaves_no_cache(pair, index):
    del index.files["evenly-1.1.tar.gz"]
    material = PypiMaterial(pair, TEST_PATHS)

    with pytest.raises(SourceUnavailable, match=r"evenly-1\.1\.tar\.gz cannot be fetched"):
        material.gold_patch()
    index.files["evenly-1.1.tar.gz"] = b"not an archive"
    with pytest.raises(SourceUnavailable):
        material.gold_patch()
