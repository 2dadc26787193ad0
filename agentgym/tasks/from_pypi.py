"""`tasks from-pypi PACKAGE OLD NEW`: two source distributions become a validated-ready task directory.

pin both releases → guess test-owned paths → pin requirements → build the old release's image → find the tests that tell
the releases apart → write the directory. Every way this can fail is a TaskError that names its reason.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.sandbox.protocol import ImageSpec, Limits, SandboxBackend
from agentgym.tasks.digest import content_files, tree_digest
from agentgym.tasks.discovery import Discovery, discover
from agentgym.tasks.instructions import instruction_from_failures
from agentgym.tasks.loader import load_task
from agentgym.tasks.manifest import PypiSource
from agentgym.tasks.model import TaskError
from agentgym.tasks.pypi import PypiMaterial, SourceUnavailable, index_files, release_tree, split_files
from agentgym.tasks.pypi_pair import PairRecipe, guess_test_paths, write_task
from agentgym.tasks.requirements import build_requirements, pin, requirements_of

Files = Sequence[tuple[str, str | None]]
"""(filename, sha256) as an index lists them."""
MAX_SOURCE_LINES = 400
_PROBE = "tests/placeholder.py::test"
_LICENCE = (
    r"^License-Expression: (.+)$",
    r"^Classifier: License :: OSI Approved :: (.+)$",
    r"^License: ([^\n]{1,40})$",
)
_BASE = "FROM python:3.11-slim-bookworm\nENV PIP_BREAK_SYSTEM_PACKAGES=1\nWORKDIR /testbed\n"


@dataclass(frozen=True, slots=True)
class PairOptions:
    """What a person may want to say better than the generator can find it.

    instruction: text for the agent. pip: exact pins (default: resolved). split, tags: labels.
    """

    instruction: str | None = None
    title: str | None = None
    pip: Sequence[str] | None = None
    licence: str | None = None
    split: str = "train"
    tags: Sequence[str] = ()


def pin_release(package: str, version: str, offered: Files | None = None) -> tuple[str, str]:
    """(filename, sha256) of the version's source distribution; raises SourceUnavailable. offered: what the index lists."""
    name = r"[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", package))
    wanted = re.compile(rf"{name}-{re.escape(version)}\.tar\.(gz|bz2|xz)", re.IGNORECASE)
    for file, digest in index_files(package) if offered is None else offered:
        if digest and wanted.fullmatch(file):
            return file, digest
    raise SourceUnavailable(f"no index offers a source distribution of {package} {version} with its sha256")


def pin_pair(package: str, old: str, new: str, offered: Files | None = None) -> PypiSource:
    """Both releases as the index pins them; raises SourceUnavailable."""
    offered = index_files(package) if offered is None else offered
    (old_file, old_sha256), (new_file, new_sha256) = (pin_release(package, version, offered) for version in (old, new))
    return PypiSource(
        kind="pypi", package=package, old=old, new=new, old_filename=old_file, new_filename=new_file,
        old_sha256=old_sha256, new_sha256=new_sha256,
    )  # fmt: skip


async def from_pypi(
    package: str, old: str, new: str, parent: Path, backend: SandboxBackend, options: PairOptions = PairOptions()
) -> tuple[Path, Discovery]:
    """Write `parent/<package>-<old>/`; raises TaskError (the pair makes no task) or SourceUnavailable."""
    source = pin_pair(package, old, new)
    draft = draft_of(source, options)
    pins = options.pip if options.pip is not None else await pins_for(draft, backend)
    draft = replace(draft, pip=[text for text in pins if not _is_itself(text, package)])
    with tempfile.TemporaryDirectory(prefix="agentgym-pair-") as scratch:
        found = await _attempt(draft, Path(scratch), backend)
        if found is None:
            # Metadata that only an installation has: some packages read their own version, or run as a console script.
            if options.pip is None:
                pins = await pins_for(draft, backend, build_requirements(_tree(source, "old")))
            draft = replace(draft, editable=True, pip=[text for text in pins if not _is_itself(text, package)])
            found = await _discover(draft, Path(scratch), backend)
    if not found.fail_to_pass:
        raise TaskError(f"{draft.id}: no test tells the releases apart ({len(found.pass_to_pass)} pass on both)")
    text = options.instruction or instruction_from_failures(package, found)
    recipe = replace(
        draft,
        instruction=text,
        title=options.title or _title(text),
        fail_to_pass=found.fail_to_pass,
        pass_to_pass=found.pass_to_pass,
        verifier_timeout_s=max(120.0, round(found.seconds * 10, -1)),
    )
    return write_task(recipe, parent), found


def draft_of(source: PypiSource, options: PairOptions, *, same: bool = False) -> PairRecipe:
    """The recipe before its tests are known; refuses pairs that cannot make a task. same: one release, not a pair."""
    old, new = _tree(source, "old"), _tree(source, "new")
    names = {path.relative_to(tree).as_posix() for tree in (old, new) for path in content_files(tree)}
    test_paths = guess_test_paths(*names)
    material = PypiMaterial(source, test_paths)
    changed, removed = material.changed_files()
    task_id = f"{source.package}-{source.old}"
    if not split_files(new, test_paths)[1]:
        raise TaskError(f"{task_id}: the source distribution of {source.new} ships no tests")
    if not changed and not removed and not same:
        raise TaskError(f"{task_id}: the releases do not differ in source files")
    lines = changed_lines(material.gold_patch())
    if lines > MAX_SOURCE_LINES:
        raise TaskError(f"{task_id}: {lines} changed source lines are more than one task ({MAX_SOURCE_LINES})")
    has_src = any(name.startswith("src/") and name.endswith(".py") for name in names)
    return PairRecipe(
        id=task_id, source=source, instruction="draft", title="", fail_to_pass=[_PROBE], pass_to_pass=[], pip=[],
        test_paths=test_paths, python_path="src" if has_src else ".", difficulty=difficulty_of(lines), size=size_of(lines),
        licence=options.licence or licence_of(new), split=options.split, tags=options.tags,
    )  # fmt: skip


def _tree(source: PypiSource, which: str) -> Path:
    filename, sha256 = getattr(source, f"{which}_filename"), getattr(source, f"{which}_sha256")
    return release_tree(source.package, filename, sha256)


def changed_lines(patch: bytes) -> int:
    """Added and removed lines of a diff, binary parts not counted."""
    lines = patch.splitlines()
    return sum(line.startswith((b"+", b"-")) and not line.startswith((b"+++ ", b"--- ")) for line in lines)


def size_of(lines: int) -> str:
    return "tiny" if lines <= 5 else "small" if lines <= 20 else "medium" if lines <= 80 else "large"


def difficulty_of(lines: int) -> str:
    return "easy" if lines <= 12 else "medium" if lines <= 60 else "hard"


def licence_of(tree: Path) -> str:
    """The licence as the metadata names it: an SPDX expression where there is one, else the classifier's words."""
    text = (tree / "PKG-INFO").read_text(encoding="utf-8", errors="replace") if (tree / "PKG-INFO").exists() else ""
    for pattern in _LICENCE:
        if match := re.search(pattern, text, re.MULTILINE):
            return match.group(1).strip()
    return "unknown"


async def pins_for(draft: PairRecipe, backend: SandboxBackend, more: Sequence[str] = ()) -> list[str]:
    """Exact requirements of the draft's tests, resolved in a sandbox of the base image."""
    old, new = _tree(draft.source, "old"), _tree(draft.source, "new")
    hidden = split_files(new, tuple(draft.test_paths))[1]
    requirements = [*requirements_of(old, new, hidden, draft.source.package), *more]
    return await pin_requirements(requirements, draft.source.package, backend)


async def pin_requirements(requirements: Sequence[str], package: str, backend: SandboxBackend) -> list[str]:
    """`name==version` for the requirements and all they need, without the package itself."""
    with tempfile.TemporaryDirectory(prefix="agentgym-pins-") as name:
        context = Path(name)
        (context / "Dockerfile").write_text(_BASE)
        spec = ImageSpec(name="agentgym-pins", digest=tree_digest(context), context=context)
        sandbox = await backend.start(await backend.ensure_image(spec), Limits(network=True))
        try:
            return await pin(sandbox, requirements, package)
        finally:
            await sandbox.close()


async def _discover(draft: PairRecipe, scratch: Path, backend: SandboxBackend) -> Discovery:
    return await discover(load_task(write_task(draft, scratch)), backend)


async def _attempt(draft: PairRecipe, scratch: Path, backend: SandboxBackend) -> Discovery | None:
    """What can be discovered without installing the tree; None where that tells the releases apart in no test."""
    try:
        found = await _discover(draft, scratch, backend)
    except TaskError:
        return None
    return found if found.fail_to_pass else None


def _is_itself(pin: str, package: str) -> bool:
    return re.sub(r"[-_.]+", "-", pin.split("==")[0]).lower() == re.sub(r"[-_.]+", "-", package).lower()


def _title(instruction: str) -> str:
    return instruction.strip().splitlines()[0].strip("# ")[:100]
