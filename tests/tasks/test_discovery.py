"""What went wrong in real release pairs, all in one small pair: the generator takes the tests that decide and no others."""

from __future__ import annotations

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import load_task
from agentgym.tasks.diff import tree_diff
from agentgym.tasks.discovery import Discovery, apart, discover
from agentgym.tasks.files_task import FilesRecipe, write_files_task
from agentgym.tasks.mutation.bases import RUNNER_PINS
from agentgym.tasks.pypi_pair import PYTEST, environment_lines, guess_test_paths

OLD = {
    "README.md": "old\n",
    "lib.py": """\
import os, time

REGISTRY = []


def double(n):
    return n + n + 1


def endless():
    while True:
        time.sleep(0.01)


def leave():
    os._exit(3)


def register():
    REGISTRY.append("left behind")
    raise ValueError("broken")
""",
    "test_lib.py": "import lib\n\n\ndef test_moved_away():\n    assert lib.double(0) == 1\n",
}
NEW = {
    "README.md": "new\n",
    "lib.py": '''\
REGISTRY = []


def double(n):
    return n + n


def endless():
    return 1


def leave():
    return 1


def register():
    return "fine"


def added():
    return 1
''',
    "tests/test_ids.py": '''\
import lib, pytest, time

@pytest.mark.parametrize("text", ["a b", "x::y", "[z]", "ü/'", "1 | 2"])
def test_ids(text):
    assert lib.double(1) == 2

@pytest.mark.parametrize("when", [time.time_ns()])
def test_clock(when):
    assert lib.double(1) == 2

def test_same():
    assert lib.REGISTRY == []

@pytest.mark.skip(reason="not here")
def test_skipped():
    assert lib.double(1) == 2

def test_readme():
    assert open("README.md").read() == "new\\n"
''',
    "tests/test_kills.py": '''\
import lib

def test_leaves():
    assert lib.leave() == 1

def test_after_it():
    assert lib.double(2) == 4

def test_hangs():
    assert lib.endless() == 1
''',
    "tests/test_import.py": "from lib import added\n\n\ndef test_added():\n    assert added() == 1\n",
    "tests/test_state.py": '''\
import lib

def test_register():
    assert lib.register() == "fine"

def test_spoilt_by_it():
    assert lib.REGISTRY == []
''',
}  # fmt: skip
DECIDING = {
    *(f"tests/test_ids.py::test_ids[{text}]" for text in ("a b", "x::y", "[z]", "\\xfc/'", "1 | 2")),
    "tests/test_import.py::test_added",
    "tests/test_state.py::test_register",
}


@pytest.fixture
async def backend():
    try:
        opened = await open_backend("auto", owner="tests of discovery")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    yield opened
    await opened.close()


async def found(backend, tmp_path, *without: str) -> Discovery:
    """What is discovered in the pair less the named test files."""
    trees = {}
    for name, files in (("old", OLD), ("new", {name: text for name, text in NEW.items() if name not in without})):
        trees[name] = tmp_path / name
        for path, text in files.items():
            (trees[name] / path).parent.mkdir(parents=True, exist_ok=True)
            (trees[name] / path).write_text(text)
    paths = guess_test_paths(*OLD, *NEW)
    recipe = FilesRecipe(
        id="traps", title="", instruction="x", dockerfile=environment_lines(RUNNER_PINS) + "WORKDIR /testbed\n",
        context={}, before=trees["old"], after=trees["new"], source=frozenset(["lib.py"]),
        tests=[name for name in NEW if name.startswith("tests/") and name not in without], test_paths=paths,
        test_command=(*PYTEST, "--timeout=3"), fail_to_pass=["tests/test_ids.py::draft"], pass_to_pass=[],
        overlay=trees["old"],
    )  # fmt: skip
    assert tree_diff(trees["old"], trees["new"], frozenset(["lib.py"]), frozenset(["lib.py"]))
    return await discover(load_task(write_files_task(recipe, tmp_path / "tasks")), backend)


async def test_odd_ids_a_missing_import_and_a_spoilt_neighbour(backend, tmp_path):
    """Ids with blanks, `::` and brackets; a module that the old release cannot collect; a test that fails only after another."""
    result = await found(backend, tmp_path, "tests/test_kills.py")

    assert set(result.fail_to_pass) == DECIDING
    assert set(result.pass_to_pass) == {"tests/test_ids.py::test_same"}
    assert result.unstable == ("tests/test_state.py::test_spoilt_by_it",)
    broken = {test.split("[")[0].split("::")[1] for test in result.broken}
    assert broken == {"test_clock", "test_skipped", "test_readme"}


async def test_tests_that_hang_or_kill_the_run_take_no_other_with_them(backend, tmp_path):
    result = await found(backend, tmp_path, "tests/test_ids.py", "tests/test_import.py", "tests/test_state.py")

    names = ("test_after_it", "test_hangs", "test_leaves")
    assert result.fail_to_pass == tuple(f"tests/test_kills.py::{name}" for name in names)
    assert (result.pass_to_pass, result.broken, result.unstable) == ((), (), ())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 9])
def test_any_two_tests_run_without_each_other(count):
    tests = [str(number) for number in range(count)]
    parts = [set(part) for part in apart(tests)]

    assert all(parts)
    for one in tests:
        for other in tests:
            assert one == other or any(one in part and other not in part for part in parts)
