"""A family: bugs that tests notice become tasks, with real sandboxes."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import TaskError, load_task
from agentgym.tasks.leaks import find_leaks
from agentgym.tasks.mutation import mutate
from agentgym.tasks.mutation.bases import directory_base, snippet_bases
from agentgym.tasks.mutation.mutants import Choice
from agentgym.tasks.mutation.sets import share_of, split_of
from agentgym.verify import Patch, grade

SNIPPETS = snippet_bases()


@pytest.fixture
async def backend():
    try:
        opened = await open_backend("auto", owner="tests of mutation")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    yield opened
    await opened.close()


def snippet(name: str):
    return next(base for base in SNIPPETS if base.name == name)


def content(root: Path) -> dict[str, bytes]:
    """All files below, less what says when and how fast."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != "family.json")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


async def test_noticed_bugs_become_tasks_that_grade_honestly(backend, tmp_path):
    report = await mutate([snippet("coins")], 3, tmp_path, backend, seed=3)

    tasks = [load_task(root) for root in report.directories]
    assert len(tasks) == 3
    for task in tasks:
        assert task.fail_to_pass
        assert task.split == split_of(snippet("coins"), "coins.py")
    images = [await backend.ensure_image(task.image) for task in tasks]
    assert len({image.ref for image in images}) == 1
    assert len({image.digest for image in images}) == 3
    sandbox = await backend.start(images[0])
    assert await find_leaks(sandbox, tasks[0]) == []
    await sandbox.close()
    assert (await grade(tasks[0], Patch(tasks[0].material.gold_patch()), backend, image=images[0])).reward == 1.0
    assert (await grade(tasks[0], Patch(diff=b""), backend, image=images[0])).reward == 0.0


async def test_the_sets_are_as_large_as_asked_and_apart_by_module(backend, tmp_path):
    shares = {
        share: next(b for b in SNIPPETS if share_of(b, b.modules[0]) == share)
        for share in ("cold-start", "train", "modules")
    }
    wanted = {"cold-start": 2, "train": 4, "instances": 2, "modules": 3}

    report = await mutate(list(shares.values()), wanted, tmp_path, backend, seed=1, workers=3)  # type: ignore[arg-type]

    assert {name: len(roots) for name, roots in report.written.items()} == wanted
    for name, roots in report.written.items():
        tasks = [load_task(root) for root in roots]
        assert {f"set:{name}" in task.tags for task in tasks} == {True}
        assert {task.split for task in tasks} == {"held-out" if name in ("instances", "modules") else "train"}
        share = "train" if name == "instances" else name
        assert {task.id.rsplit("-", 1)[0] for task in tasks} == {shares[share].name}
    facts = json.loads((tmp_path / "family.json").read_text())
    assert facts["tasks"] == wanted
    ids = [root.name for root in report.directories]
    assert len(set(ids)) == len(ids)


async def test_the_same_seed_gives_the_same_family_however_many_sandboxes_try(backend, tmp_path):
    for name, seed, workers in (("one", 5, 1), ("two", 5, 3), ("other", 6, 1)):
        await mutate([snippet("account")], 4, tmp_path / name, backend, seed=seed, workers=workers, show="module")

    assert "account.Account object" in str(content(tmp_path / "one"))  # and not where it lies in memory
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert content(tmp_path / "one").keys() != content(tmp_path / "other").keys()


async def test_a_family_can_keep_to_kinds_of_mistakes(backend, tmp_path):
    report = await mutate(
        [snippet("lists")], 3, tmp_path, backend, choice=Choice(frozenset(["arithmetic", "off_by_one"]))
    )

    assert set(report.operators) <= {"arithmetic", "off_by_one"}
    assert report.directories


async def test_a_family_can_keep_to_short_functions(backend, tmp_path):
    report = await mutate([snippet("lists")], 6, tmp_path, backend, choice=Choice(max_lines=4), show="function")

    shown = [(place / "instruction.md").read_text().split("```python\n")[1] for place in report.directories]
    assert shown
    assert all(len(text.split("\n```")[0].splitlines()) <= 4 for text in shown)


STEPS = """\
def steps(n):
    count = 0
    while n > 0:
        n -= 1
        count += 1
    return count
"""
TESTS = """\
import steps


def test_none():
    assert steps.steps(0) == 0


def test_some():
    assert steps.steps(3) == 3
"""


async def test_a_bug_that_hangs_is_no_task_and_does_not_stop_the_family(backend, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "steps.py").write_text(
        "def steps(n):\n    count = 0\n    while n > 0:\n        n -= 1\n        count += 1\n    return count\n"
    )
    (code / "test_steps.py").write_text(TESTS)

    report = await mutate([directory_base(code)], 100, tmp_path / "out", backend)

    assert report.dropped["the tests hang"] >= 1
    assert report.directories


async def test_code_without_tests_is_refused(tmp_path):
    (tmp_path / "plain.py").write_text("x = 1\n")

    with pytest.raises(TaskError, match="has no tests"):
        directory_base(tmp_path)


def test_every_share_has_many_modules():
    shares = [share_of(base, base.modules[0]) for base in SNIPPETS]

    assert {share: shares.count(share) >= 20 for share in set(shares)} == {
        "cold-start": True,
        "train": True,
        "modules": True,
    }


@pytest.mark.parametrize("base", SNIPPETS, ids=lambda base: base.name)
def test_a_snippet_is_one_module_with_tests(base, tmp_path):
    assert len(base.modules) == len(base.tests) == 1
    copy = tmp_path / base.name
    shutil.copytree(base.tree, copy)
    compile((copy / base.modules[0]).read_text(), base.modules[0], "exec")
    assert Path(base.tests[0]).name == f"test_{base.name}.py"


async def test_held_out_spellings_are_other_tasks_of_the_bugs_trained_on(tmp_path, backend):
    names = [base.name for base in snippet_bases() if share_of(base, base.modules[0]) == "train"][:2]
    bases = [snippet(name) for name in names]

    report = await mutate(bases, {"train": 6, "instances": 2}, tmp_path, backend, spellings=4, show="line")

    tasks = {name: [load_task(root) for root in roots] for name, roots in report.written.items()}
    bugs = {
        name: Counter(tag for task in found for tag in task.tags if tag.startswith("bug:"))
        for name, found in tasks.items()
    }
    assert set(bugs["train"].values()) == {3}
    assert bugs["instances"] == dict.fromkeys(bugs["train"], 1)
    texts = [task.instruction for found in tasks.values() for task in found]
    assert len(set(texts)) == len(texts) == 8
    task = tasks["instances"][0]
    image = await backend.ensure_image(task.image)
    gold = Patch(task.material.gold_patch())
    assert (await grade(task, gold, backend, image=image)).reward == 1.0
    assert (await grade(task, Patch(b""), backend, image=image)).reward == 0.0
