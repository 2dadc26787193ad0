"""What a release's tests need is found in all the places where projects declare it, and nothing else is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, ImageSpec, Limits
from agentgym.tasks import TaskError
from agentgym.tasks.digest import tree_digest
from agentgym.tasks.requirements import RUNNER, build_requirements, pin, requirements_of


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


TESTS = {
    "tests/test_a.py": "import os\nimport yaml\nfrom freezegun import freeze_time\nimport mypackage\nfrom . import helper\n"
}
METADATA = """\
Metadata-Version: 2.1
Name: mypackage
Requires-Dist: attrs>=20
Requires-Dist: typing-extensions; python_version < "3.8"
Requires-Dist: pyyaml; extra == "test"
Requires-Dist: sphinx; extra == "docs"
Requires-Dist: black; extra == "test"
Requires-Dist: mypackage[extra]; extra == "all"
"""


def needed(tmp_path, files: dict[str, str]) -> list[str]:
    tree = lay(tmp_path, {**TESTS, **files})
    return requirements_of(tree, tree, ["tests/test_a.py"], "mypackage")


def test_the_package_needs_all_and_its_tests_what_they_import(tmp_path):
    assert needed(tmp_path, {"PKG-INFO": METADATA}) == [
        *RUNNER,
        "attrs>=20",
        "pyyaml",
        'typing-extensions; python_version < "3.8"',
    ]


def test_old_metadata_names_its_requirements_beside_itself(tmp_path):
    files = {
        "PKG-INFO": "Metadata-Version: 1.1\nName: mypackage\n",
        "mypackage.egg-info/requires.txt": (
            "six>=1.8.0\n\n[:python_version < '3.4']\nenum34\n\n[docs]\nsphinx\n\n[test]\nfreezegun\nmypy\n"
        ),
    }

    assert needed(tmp_path, files) == [*RUNNER, "enum34 ; (python_version < '3.4')", "freezegun", "six>=1.8.0"]


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[dependency-groups]\ntest = ["freezegun>=1", "mypy", {include-group = "x"}]\n'},
        {"pyproject.toml": '[tool.poetry.group.dev.dependencies]\nfreezegun = "^1.0"\nmypy = "*"\n'},
        {"requirements-test.txt": "# tests\nfreezegun>=1  # why\n-r other.txt\nmypy\n"},
        {"tox.ini": "[testenv]\ndeps =\n    freezegun>=1\n    py311: mypy\n    {[base]deps}\n"},
    ],
)
def test_test_requirements_are_found_wherever_they_are_declared(tmp_path, files):
    names = [text.split(">")[0] for text in needed(tmp_path, files)[len(RUNNER) :]]

    assert names == ["freezegun"]


def test_pytest_plugins_are_taken_unless_they_only_report(tmp_path):
    group = '[dependency-groups]\ntest = ["pytest-asyncio", "pytest-cov", "pytest-xdist", "pytest>=5", "hypothesis"]\n'

    assert needed(tmp_path, {"pyproject.toml": group}) == [*RUNNER, "hypothesis", "pytest-asyncio"]


@pytest.mark.parametrize("which", ["old", "new"])
def test_a_filter_for_coverages_warnings_needs_coverage(tmp_path, which):
    """The older release's configuration stays in the workdir, the newer one's tests may bring their own."""
    config = '[tool.pytest.ini_options]\nfilterwarnings = ["ignore:x:coverage.exceptions.CoverageWarning"]\n'
    trees = {name: lay(tmp_path / name, TESTS) for name in ("old", "new")}
    lay(trees[which], {"pyproject.toml": config})

    assert "coverage" in requirements_of(trees["old"], trees["new"], ["tests/test_a.py"], "mypackage")


def test_installing_a_tree_needs_its_build_backend(tmp_path):
    lay(tmp_path, {"pyproject.toml": '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'})

    assert build_requirements(tmp_path) == ["hatchling", "editables"]


async def test_pins_leave_the_package_itself_out(tmp_path):
    try:
        backend = await open_backend("auto", owner="tests of requirements")
    except BackendUnavailable as error:
        pytest.skip(f"no sandboxes here: {error}")
    lay(tmp_path, {"Dockerfile": "FROM python:3.11-slim-bookworm\nENV PIP_BREAK_SYSTEM_PACKAGES=1\nWORKDIR /testbed\n"})
    try:
        image = await backend.ensure_image(ImageSpec(name="pins", digest=tree_digest(tmp_path), context=tmp_path))
        sandbox = await backend.start(image, Limits(network=True))
        pins = await pin(sandbox, ["pytest-timeout==2.4.0", "pluggy"], "pluggy")
        with pytest.raises(TaskError, match="do not resolve"):
            await pin(sandbox, ["pytest==0.0.1"], "x")
    finally:
        await backend.close()

    assert "pytest-timeout==2.4.0" in pins
    assert any(text.startswith("pytest==") for text in pins)
    assert not any(text.startswith("pluggy==") for text in pins)
