"""`tasks from-git REPO BASE FIX`: two commits become a task, as two releases do.

The base commit's tree is the problem (it is copied into the task's build context), the fix commit's test-owned files are
the judge, and the difference in source files is the reference solution. Which tests decide is found by running.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks.diff import git, tree_diff
from agentgym.tasks.digest import content_files
from agentgym.tasks.discovery import Discovery, discover
from agentgym.tasks.files_task import FilesRecipe, write_files_task
from agentgym.tasks.from_pypi import MAX_SOURCE_LINES, PairOptions, changed_lines, difficulty_of, pin_requirements
from agentgym.tasks.instructions import instruction_from_failures
from agentgym.tasks.loader import load_task
from agentgym.tasks.model import TaskError
from agentgym.tasks.pypi import split_files
from agentgym.tasks.pypi_pair import PYTEST, environment_lines, guess_test_paths
from agentgym.tasks.requirements import requirements_of


async def from_git(
    repository: Path, base: str, fix: str, parent: Path, backend: SandboxBackend, options: PairOptions = PairOptions()
) -> tuple[Path, Discovery]:
    """Write `parent/<repository>-<base>/`; raises TaskError where the commits make no task."""
    with tempfile.TemporaryDirectory(prefix="agentgym-git-") as name:
        scratch = Path(name)
        before, after = _tree(repository, base, scratch / "before"), _tree(repository, fix, scratch / "after")
        draft = await _draft(repository, base, before, after, backend, options)
        found = await discover(load_task(write_files_task(draft, scratch / "draft")), backend)
        if not found.fail_to_pass:
            raise TaskError(f"{draft.id}: no test tells the commits apart ({len(found.pass_to_pass)} pass on both)")
        text = options.instruction or instruction_from_failures(_name(repository), found)
        title = options.title or text.strip().splitlines()[0][:100]
        expected = {"fail_to_pass": found.fail_to_pass, "pass_to_pass": found.pass_to_pass}
        return write_files_task(replace(draft, instruction=text, title=title, **expected), parent), found


async def _draft(
    repository: Path, base: str, before: Path, after: Path, backend: SandboxBackend, options: PairOptions
) -> FilesRecipe:
    name = _name(repository)
    task_id = f"{name}-{git(repository, 'rev-parse', '--short=10', base).decode().strip()}"
    names = {path.relative_to(tree).as_posix() for tree in (before, after) for path in content_files(tree)}
    test_paths = guess_test_paths(*names)
    old_source, _ = split_files(before, test_paths)
    new_source, tests = split_files(after, test_paths)
    changed = (old_source ^ new_source) | {
        file for file in old_source & new_source if (before / file).read_bytes() != (after / file).read_bytes()
    }
    if not tests:
        raise TaskError(f"{task_id}: the fix commit has no tests")
    if not changed:
        raise TaskError(f"{task_id}: the commits do not differ in source files")
    pins = options.pip
    if pins is None:
        pins = await pin_requirements(requirements_of(before, after, tests, name), name, backend)
    root = "/testbed/src" if any(file.startswith("src/") for file in names) else "/testbed"
    draft = FilesRecipe(
        id=task_id, title="draft", instruction="draft", dockerfile=environment_lines(pins)
        + f"WORKDIR /testbed\nCOPY repo/ /testbed/\nENV PYTHONPATH={root}\n", context={"repo": before}, before=before,
        after=after, source=frozenset(changed), tests=sorted(tests), test_paths=test_paths,
        test_command=(*PYTEST, "--timeout=40"), fail_to_pass=["draft"], pass_to_pass=[], split=options.split,
        licence=options.licence or "", tags=["git-pair", *options.tags],
    )  # fmt: skip
    lines = changed_lines(_gold(draft))
    if lines > MAX_SOURCE_LINES:
        raise TaskError(f"{task_id}: {lines} changed source lines are more than one task ({MAX_SOURCE_LINES})")
    return replace(draft, difficulty=difficulty_of(lines))


def _name(repository: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", repository.resolve().name)


def _gold(recipe: FilesRecipe) -> bytes:
    before = frozenset(name for name in recipe.source if (recipe.before / name).is_file())
    return tree_diff(
        recipe.before, recipe.after, before, frozenset(n for n in recipe.source if (recipe.after / n).is_file())
    )


def _tree(repository: Path, commit: str, target: Path) -> Path:
    """The commit's files, without the repository's work tree, hooks or attributes playing a part."""
    target.mkdir(parents=True)
    try:
        tree = git(repository, "rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    except RuntimeError as error:
        raise TaskError(f"{repository}: no commit is called {commit!r} ({error})") from error
    listing = git(repository, "ls-tree", "-r", "-z", tree)
    for entry in filter(None, listing.split(b"\0")):
        meta, _, raw = entry.partition(b"\t")
        mode, kind, oid = meta.decode().split(" ")
        if kind != "blob" or mode == "120000":
            continue  # a submodule or a link is no file of this tree
        path = target / os.fsdecode(raw)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(git(repository, "cat-file", "blob", oid))
        path.chmod(0o755 if mode == "100755" else 0o644)
    return target
