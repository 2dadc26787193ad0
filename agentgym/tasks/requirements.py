"""What a release needs to run its tests: declared requirements, narrowed to what the tests import, pinned inside the
image.

Projects declare test requirements in extras, dependency groups, requirement files and tox.ini, mixed with linters and
document builders. Everything the package itself needs is taken; of the rest only what the hidden tests import and
pytest plugins. Pins come from pip in a sandbox of the task's base image (with network), so that nothing of a package
runs on the host and versions fit the interpreter that will run them. The package itself is never among them: it would
give the answer away.
"""

from __future__ import annotations

import ast
import configparser
import email
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.model import TaskError

RUNNER = ("pytest>=8,<9", "pytest-timeout>=2.3")
_TEST_GROUPS = re.compile(r"(unit)?[-_]?(tests?|testing|dev|develop(ment)?|all)", re.IGNORECASE)
_TEST_FILES = (
    "requirements*test*.txt", "test*requirements*.txt", "requirements*dev*.txt", "dev*requirements*.txt",
    "requirements/*test*.txt", "requirements/*dev*.txt", "tests/requirements*.txt", "test/requirements*.txt",
)  # fmt: skip
_DISTRIBUTIONS = {
    "yaml": "pyyaml", "dateutil": "python-dateutil", "bs4": "beautifulsoup4", "attr": "attrs", "zope": "zope-interface",
    "google": "protobuf", "PIL": "pillow", "OpenSSL": "pyopenssl", "serial": "pyserial", "git": "gitpython",
}  # fmt: skip
_PLUGINS = re.compile(
    r"pytest-(?!cov$|xdist$|sugar$|randomly$|mypy|ruff|flake8|black|checkdocs|enabler|codspeed|html$)|hypothesis$|anyio$"
)


def normal(name: str) -> str:
    """The normalised distribution name of a requirement string."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", name)
    return re.sub(r"[-_.]+", "-", match.group(1)).lower() if match else ""


def requirements_of(old: Path, new: Path, hidden: Iterable[str], package: str) -> list[str]:
    """Requirement strings for running the newer release's tests on the older release's source.

    old, new: release trees. hidden: relative paths of the hidden tests in `new`.
    """
    modules = set(_imports(new / name for name in hidden if name.endswith(".py")))
    wanted = {normal(_DISTRIBUTIONS.get(module, module)) for module in modules}
    runtime = [text for text in _metadata(old) if "extra ==" not in text]
    declared = [*(text for text in _metadata(new) if _is_test_extra(text)), *_groups(new), *_files(new), *_tox(new)]
    tests = [text for text in declared if normal(text) in wanted or _PLUGINS.match(normal(text))]
    chosen = {normal(text): _without_extra(text) for text in [*tests, *runtime]}
    if _warns_of_coverage(old) or _warns_of_coverage(new):
        chosen.setdefault("coverage", "coverage")
    for name in (normal(package), "pytest", "pytest-timeout"):
        chosen.pop(name, None)
    return [*RUNNER, *(chosen[name] for name in sorted(chosen))]


async def pin(sandbox: Sandbox, requirements: Sequence[str], package: str) -> list[str]:
    """`name==version` for the requirements and all they need; raises TaskError with pip's words where they do not
    resolve.

    sandbox: one of the task's base image, with network.
    """
    command = "python3 -m pip install --dry-run --ignore-installed --quiet --report /tmp/pins.json " + shlex.join(
        requirements
    )
    result = await sandbox.exec(f"cd /tmp && {command}", timeout=300.0)
    if result.exit_code != 0:
        raise TaskError(f"the requirements of {package}'s tests do not resolve: {result.text[-800:].strip()}")
    report = json.loads(await sandbox.read_file("/tmp/pins.json"))
    found = ((entry["metadata"]["name"], entry["metadata"]["version"]) for entry in report["install"])
    return sorted((f"{name}=={version}" for name, version in found if normal(name) != normal(package)), key=str.lower)


def build_requirements(tree: Path) -> list[str]:
    """What installing the tree itself needs, for `--no-build-isolation`."""
    file = tree / "pyproject.toml"
    table = _toml(file).get("build-system", {}) if file.is_file() else {}
    needed = list(table.get("requires", ["setuptools", "wheel"]))
    return (
        [*needed, "editables"]
        if "hatchling" in str(table.get("build-backend", ""))
        else [*needed, "setuptools", "wheel"]
    )


def _metadata(tree: Path) -> list[str]:
    files = [tree / "PKG-INFO", *tree.glob("*.egg-info/PKG-INFO"), *tree.glob("src/*.egg-info/PKG-INFO")]
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    requires = [email.message_from_string(text).get_all("Requires-Dist") or [] for text in texts]
    # Metadata of version 1 knows no requirements; what old versions of setuptools knew of them stands beside it.
    requires += [
        _requires_txt(file)
        for file in (*tree.glob("*.egg-info/requires.txt"), *tree.glob("src/*.egg-info/requires.txt"))
    ]
    longest: list[str] = max(requires, key=len, default=[])
    if longest:
        return longest
    project = _toml(tree / "pyproject.toml").get("project", {})
    extras = project.get("optional-dependencies", {})
    return [
        *project.get("dependencies", []),
        *(f"{text} ; extra == '{name}'" for name, texts in extras.items() for text in texts if ";" not in text),
    ]


def _requires_txt(file: Path) -> list[str]:
    """Setuptools' own list: sections `[extra]`, `[:marker]` or `[extra:marker]`, the package's own requirements before them."""
    found, markers = [], list[str]()
    for line in filter(None, map(str.strip, file.read_text(encoding="utf-8", errors="replace").splitlines())):
        if line.startswith("["):
            extra, _, marker = line.strip("[]").partition(":")
            markers = [f"({marker})"] * bool(marker) + [f"extra == '{extra}'"] * bool(extra)
        else:
            found.append(f"{line} ; {' and '.join(markers)}" if markers else line)
    return found


def _is_test_extra(text: str) -> bool:
    return any(_TEST_GROUPS.fullmatch(extra) for extra in re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", text))


def _without_extra(text: str) -> str:
    return re.sub(r"\s*(;|\band\b)\s*\(?extra\s*==\s*['\"][^'\"]+['\"]\)?", "", text).strip().removesuffix(";").strip()


def _warns_of_coverage(tree: Path) -> bool:
    """A warning filter that names a class of a package needs that package before the first test runs."""
    files = (tree / name for name in ("pyproject.toml", "pytest.ini", "pytest.toml", "setup.cfg", "tox.ini"))
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    return any(re.search(r"ignore:.*coverage\.", text) for text in texts)


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _groups(tree: Path) -> Iterator[str]:
    """Dependency groups (PEP 735) and Poetry's, by their names."""
    document = _toml(tree / "pyproject.toml")
    groups = document.get("dependency-groups", {})
    for name, entries in groups.items():
        if _TEST_GROUPS.fullmatch(name):
            yield from (entry for entry in entries if isinstance(entry, str))
    poetry = document.get("tool", {}).get("poetry", {})
    for group in (
        poetry.get("dev-dependencies", {}),
        *(g.get("dependencies", {}) for g in poetry.get("group", {}).values()),
    ):
        yield from group


def _files(tree: Path) -> Iterator[str]:
    for pattern in _TEST_FILES:
        for file in tree.glob(pattern):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                text = line.split("#")[0].split("--hash")[0].strip().removesuffix("\\").strip()
                if text and not text.startswith("-"):
                    yield text


def _tox(tree: Path) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(tree / "tox.ini", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return
    for section in parser.sections():
        for line in parser.get(section, "deps", fallback="").splitlines():
            text = line.rpartition(": ")[2].strip()
            if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*([<>=!~][^{}]*)?", text):
                yield text


def _imports(files: Iterable[Path]) -> Iterator[str]:
    """Top-level names that the files import and the standard library does not have."""
    for file in files:
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            yield from (name.split(".")[0] for name in names if name.split(".")[0] not in sys.stdlib_module_names)
