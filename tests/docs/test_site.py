"""The documentation holds together: links lead somewhere, code is code, names that it imports exist, and the site builds."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
OURS = ("agentgym", "harness", "trainer")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", page.read_text()), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        plain = unicodedata.normalize("NFKC", plain).lower()
        found.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain)).strip("-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name}: {target} (there are {sorted(anchors(file))})"


def code_blocks() -> list[tuple[str, str]]:
    return [
        (f"{page.name}:{number}", code)
        for page in PAGES
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
    ]


@pytest.mark.parametrize(("place", "code"), code_blocks(), ids=[place for place, _ in code_blocks()])
def test_code_is_code_and_what_it_imports_is_there(place: str, code: str) -> None:
    """Blocks that need a store, a sandbox or a server are run by the tests of their room."""
    for one in ast.walk(ast.parse(code)):
        if isinstance(one, ast.Import):
            named = {alias.name: () for alias in one.names}
        elif isinstance(one, ast.ImportFrom):
            named = {str(one.module): tuple(alias.name for alias in one.names)}
        else:
            continue
        for module, names in named.items():
            if module.split(".")[0] not in OURS:  # loading it would prove no more, and may take seconds
                assert importlib.util.find_spec(module.split(".")[0]), f"{place}: {module}"
                continue
            loaded = importlib.import_module(module)
            assert all(hasattr(loaded, name) for name in names), f"{place}: {module} has not all of {names}"


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Overview" in (tmp_path / "site" / "index.html").read_text()
    assert (tmp_path / "site" / "server.html").is_file()
