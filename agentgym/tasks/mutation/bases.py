"""Healthy code to put bugs into: a package release from the index, or a directory on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks import fetch_sdist
from agentgym.tasks.digest import content_files
from agentgym.tasks.from_pypi import PairOptions, draft_of, licence_of, pin_pair, pins_for
from agentgym.tasks.model import TaskError
from agentgym.tasks.paths import matches
from agentgym.tasks.pypi import PypiMaterial, split_files
from agentgym.tasks.pypi_pair import PYTEST, environment_lines, guess_test_paths, release_lines

TEST_TIMEOUT_S = 20
RUNNER_PINS = (
    "iniconfig==2.3.1", "packaging==26.4", "pluggy==1.7.0", "Pygments==2.21.0", "pytest==8.4.2", "pytest-timeout==2.4.0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Base:
    """tree: the healthy code. dockerfile: makes the image to work in. context: what it copies, by name.

    modules, tests: relative paths of the source modules and of the test-owned files. upload: the tree is not in that image
    but laid into each sandbox, so that all directories with the same requirements share it.
    """

    name: str
    tree: Path
    dockerfile: str
    context: Mapping[str, Path]
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    test_paths: tuple[str, ...]
    licence: str
    source: str
    upload: bool = False
    test_command: tuple[str, ...] = field(default=(*PYTEST, f"--timeout={TEST_TIMEOUT_S}"))


async def release_base(
    package: str, version: str, backend: SandboxBackend, *, pip: Sequence[str] | None = None
) -> Base:
    """The release `version` of `package` with its own tests; requirements are pinned in a sandbox unless given."""
    source = pin_pair(package, version, version)
    material = PypiMaterial(source, ())
    tree = material.new_tree()
    draft = draft_of(source, PairOptions(), same=True)
    pins = pip if pip is not None else await pins_for(draft, backend)
    modules, tests = split_files(tree, tuple(draft.test_paths))
    lines = release_lines(package, source.new_filename, source.new_sha256, draft.python_path, editable=False)
    return Base(
        name=f"{package}-{version}",
        tree=tree,
        dockerfile=environment_lines(pins) + lines,
        context={"fetch_sdist.py": Path(fetch_sdist.__file__)},
        modules=_python(modules),
        tests=tuple(sorted(tests)),
        test_paths=tuple(draft.test_paths),
        licence=licence_of(tree),
        source=f"pypi:{package}=={version}",
    )


def directory_base(path: Path, *, name: str | None = None, pip: Sequence[str] = RUNNER_PINS, licence: str = "") -> Base:
    """A directory with modules and pytest tests, importable from its root or from `src`."""
    tree = path.resolve()
    names = [file.relative_to(tree).as_posix() for file in content_files(tree) if not file.is_symlink()]
    test_paths = guess_test_paths(*names)
    tests = tuple(name for name in names if matches(name, test_paths))
    if not tests:
        raise TaskError(f"{path} has no tests: a bug that nothing notices is no task")
    root = "/testbed/src" if (tree / "src").is_dir() else "/testbed"
    return Base(
        name=name or tree.name,
        tree=tree,
        dockerfile=environment_lines(pip) + f"WORKDIR /testbed\nENV PYTHONPATH={root}\n",
        context={},
        modules=_python(name for name in names if name not in tests),
        tests=tests,
        test_paths=test_paths,
        licence=licence,
        source=f"directory:{tree.name}",
        upload=True,
    )


def snippet_bases(*names: str) -> list[Base]:
    """The small modules that ship with agentgym, or those named: single-file tasks for small models, each a base of its own."""
    root = Path(__file__).parents[3] / "environments/snippets"
    shipped = {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}
    if unknown := [name for name in names if name not in shipped]:
        raise TaskError(f"no snippets are named {', '.join(unknown)}", hint=f"the folders of {root}")
    return [directory_base(shipped[name], licence="Apache-2.0") for name in names or shipped]


def _python(names: Iterable[str]) -> tuple[str, ...]:
    """Modules of the package itself: no build scripts, tools or generated version files."""
    skip = (
        "setup.py",
        "noxfile.py",
        "conftest.py",
        "docs/**",
        "tools/**",
        "scripts/**",
        "**/_version.py",
        "**/__main__.py",
    )
    return tuple(sorted(name for name in names if name.endswith(".py") and not matches(name, skip)))
