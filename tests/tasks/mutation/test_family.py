"""A family: bugs that tests notice become tasks, with real sandboxes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import TaskError, load_task
from agentgym.tasks.mutation import mutate
from agentgym.tasks.mutation.bases import directory_base, snippet_bases
from agentgym.tasks.mutation.write import split_of
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


async def test_noticed_bugs_become_tasks_that_grade_honestly(backend, tmp_path):
    base = next(base for base in SNIPPETS if base.name == "coins")

    report = await mutate([base], 3, tmp_path, backend, seed=3)

    assert len(report.written) == 3
    for root in report.written:
        task = load_task(root)
        assert task.fail_to_pass
        assert " coins.py" not in task.instruction.replace("`", " ")  # the failing test is named, the place is not
        assert task.split == split_of(base, "coins.py")
    task = load_task(report.written[0])
    image = await backend.ensure_image(task.image)
    assert (await grade(task, Patch(diff=task.material.gold_patch()), backend, image=image)).reward == 1.0
    assert (await grade(task, Patch(diff=b""), backend, image=image)).reward == 0.0


async def test_code_without_tests_is_refused(tmp_path):
    (tmp_path / "plain.py").write_text("x = 1\n")

    with pytest.raises(TaskError, match="has no tests"):
        directory_base(tmp_path)


def test_both_splits_occur_and_a_module_is_in_one():
    splits = {base.name: split_of(base, base.modules[0]) for base in SNIPPETS}

    assert set(splits.values()) == {"train", "held-out"}
    assert splits == {base.name: split_of(base, base.modules[0]) for base in SNIPPETS}


@pytest.mark.parametrize("base", SNIPPETS, ids=lambda base: base.name)
def test_a_snippet_is_one_module_with_tests(base, tmp_path):
    assert len(base.modules) == len(base.tests) == 1
    copy = tmp_path / base.name
    shutil.copytree(base.tree, copy)
    compile((copy / base.modules[0]).read_text(), base.modules[0], "exec")
    assert Path(base.tests[0]).name == f"test_{base.name}.py"
