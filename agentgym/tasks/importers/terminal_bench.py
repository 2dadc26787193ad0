"""Old terminal-bench directories (`task.yaml`) as Harbor directories.

`task.yaml` holds the instruction and the limits; `Dockerfile`, `solution.sh` and `tests/` lie beside it, and
`run-tests.sh` (or pytest on `tests/test_outputs.py`) judges. A canary comment is kept, and puts the task into the split
`held-out`: it marks data that must not be trained on.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from agentgym.tasks.importers.read import UnreadableRows
from agentgym.tasks.importers.rows import RowRefused
from agentgym.tasks.toml import table

_PYTEST = """\
#!/bin/bash
mkdir -p /logs/verifier
python3 -m pytest -q /tests/test_outputs.py && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
"""
_WRAPPED = """\
#!/bin/bash
mkdir -p /logs/verifier
export TEST_DIR=/tests
bash /tests/run-tests.sh && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
"""


def import_terminal_bench(directory: Path, parent: Path) -> Path:
    """Write `parent/<name>/`; raises RowRefused with what the directory lacks."""
    settings, canary = _settings(directory / "task.yaml")
    instruction = settings.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise RowRefused("task.yaml has no instruction")
    missing = [name for name in ("Dockerfile", "tests") if not (directory / name).exists()]
    if missing:
        raise RowRefused(f"the directory lacks {' and '.join(missing)}")
    if (directory / "docker-compose.yaml").is_file() and _services(directory / "docker-compose.yaml") > 1:
        raise RowRefused("docker-compose.yaml starts several containers, which is not supported")
    root = parent / directory.name
    if root.exists():
        shutil.rmtree(root)
    skip = shutil.ignore_patterns("task.yaml", "tests", "solution*", "run-tests.sh", "docker-compose.yaml")
    shutil.copytree(directory, root / "environment", ignore=skip)
    shutil.copytree(directory / "tests", root / "tests")
    script = directory / "run-tests.sh"
    if script.is_file():
        shutil.copy2(script, root / "tests/run-tests.sh")
    (root / "tests/test.sh").write_text(_WRAPPED if script.is_file() else _PYTEST)
    if (directory / "solution.sh").is_file():
        (root / "solution").mkdir()
        shutil.copy2(directory / "solution.sh", root / "solution/solve.sh")
    (root / "instruction.md").write_text(instruction, encoding="utf-8")
    (root / "task.toml").write_text(_manifest(settings, canary, directory.name), encoding="utf-8")
    return root


def _settings(file: Path) -> tuple[dict[str, Any], str]:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UnreadableRows(f"{file}: reading YAML needs PyYAML", hint="pip install pyyaml") from error
    try:
        text = file.read_text(encoding="utf-8")
        settings = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise RowRefused(f"task.yaml cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise RowRefused("task.yaml holds no settings")
    canary = next(
        (line.lstrip("# ") for line in text.splitlines() if line.startswith("#") and "canary" in line.lower()), ""
    )
    return settings, canary


def _services(file: Path) -> int:
    import yaml

    return len((yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("services") or {})


def _manifest(settings: dict[str, Any], canary: str, name: str) -> str:
    tags = ["terminal-bench", *map(str, settings.get("tags") or [])]
    category = str(settings.get("category") or "")
    metadata = {
        "difficulty": str(settings.get("difficulty") or ""),
        "category": category,
        "tags": tags,
        "canary": canary or None,
    }
    ours = {"judge": "script", "split": "held-out" if canary else "train", "workdir": "/app", "network": False}
    return "\n".join(
        [
            'schema_version = "1.1"\n',
            table("task", {"name": f"terminal-bench/{name}"}),
            table("metadata", metadata),
            table("agent", {"timeout_sec": float(settings.get("max_agent_timeout_sec") or 900)}),
            table("verifier", {"timeout_sec": float(settings.get("max_test_timeout_sec") or 180)}),
            table("environment", {"cpus": 1, "memory_mb": 2048, "storage_mb": 10240}),
            table("agentgym", ours),
            table("agentgym.source", {"kind": "script"}),
        ]
    )
