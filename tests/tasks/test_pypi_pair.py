"""A pair's directory holds no third-party code, tells the image nothing of the newer release, and solves itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.tasks import fetch_sdist, harbor_verify, load_task, shipped_tasks
from agentgym.tasks.pypi_pair import PairRecipe, guess_test_paths, write_task

PAIRS = [path for path in shipped_tasks() if (path / "environment/fetch_sdist.py").exists()]


@pytest.fixture
def recipe(pair):
    return PairRecipe(
        id="evenly-1.0",
        source=pair,
        instruction='Mend `is_even`.\n"quotes" and \\ stay.',
        title='Even is "odd"',
        fail_to_pass=["tests/test_evenly.py::test_even"],
        pass_to_pass=["tests/test_evenly.py::test_half"],
        pip=["pytest==8.4.2"],
        test_paths=guess_test_paths("tests/test_evenly.py", "test_evenly.py", "evenly.py"),
        licence="MIT",
    )


def test_a_written_pair_loads(recipe, tmp_path):
    task = load_task(write_task(recipe, tmp_path))

    assert task.instruction == recipe.instruction + "\n"
    assert task.test_paths == ("conftest.py", "test_evenly.py", "tests/**")
    assert b"n % 2 == 0" in task.material.gold_patch()
    assert task.source["new_sha256"] == recipe.source.new_sha256


def test_writing_is_deterministic(recipe, tmp_path):
    first = load_task(write_task(recipe, tmp_path / "a"))

    assert load_task(write_task(recipe, tmp_path / "b")).digest == first.digest


def test_the_image_knows_nothing_of_the_newer_release(recipe, tmp_path):
    root = write_task(recipe, tmp_path)

    built_from = "".join(path.read_text() for path in (root / "environment").iterdir())

    assert "evenly-1.0.tar.gz" in built_from
    assert "1.1" not in (root / "environment/Dockerfile").read_text()
    assert recipe.source.new_sha256 not in built_from


def test_guessing_owns_test_folders_and_lone_test_modules():
    names = (
        "src/pkg/tests/data/x.json",
        "test/test_a.py",
        "pkg/latest.py",
        "pkg/testing/helper.py",
        "tests.py",
        "a_test.py",
    )

    assert guess_test_paths(*names) == ("a_test.py", "conftest.py", "src/pkg/tests/**", "test/**", "tests.py")


@pytest.mark.parametrize("solved", [True, False])
def test_harbors_scripts_judge_the_solution(recipe, tmp_path, solved):
    """The scripts as Harbor runs them, with its fixed paths moved to a scratch folder."""
    root = write_task(recipe, tmp_path / "tasks")
    places = {
        "/usr/local/bin/fetch-sdist": str(root / "environment/fetch_sdist.py"),
        "/logs/verifier": str(tmp_path / "logs"),
        "/testbed": str(tmp_path / "testbed"),
        "/tests/": f"{root}/tests/",
        "python3 ": f"{sys.executable} ",
        "--timeout=40": "",
    }

    def run(script: Path) -> None:
        text = script.read_text()
        for old, new in places.items():
            text = text.replace(old, new)
        subprocess.run(["bash", "-c", text], check=True, capture_output=True)

    fetch_sdist.main(["evenly", recipe.source.old_filename, recipe.source.old_sha256, places["/testbed"]])
    if solved:
        run(root / "solution/solve.sh")
    run(root / "tests/test.sh")

    assert (tmp_path / "logs/reward.txt").read_text().strip() == str(int(solved))
    assert not (tmp_path / "testbed/test_evenly.py").exists()


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.name)
def test_shipped_pairs_carry_the_current_scripts(path):
    assert (path / "environment/fetch_sdist.py").read_bytes() == Path(fetch_sdist.__file__).read_bytes()
    assert (path / "tests/harbor_verify.py").read_bytes() == Path(harbor_verify.__file__).read_bytes()


def test_listed_pairs_have_the_listed_tests(shared):
    listed = {
        (row["package"], row["old"], row["new"]): row
        for row in json.loads((shared / "tasks/pypi_pairs.json").read_text())
    }
    compared = 0
    for path in PAIRS:
        task = load_task(path)
        row = listed.get((task.source["package"], task.source["old"], task.source["new"]))
        if row is not None:
            compared += 1
            assert set(task.fail_to_pass) == set(row["fail_to_pass"]), task.id
    assert compared
