"""The process of one launched run: `python -m agentgym.server.runs.worker STORE RUN_ID`.

Runs one `agentgym` command as a child in the same process group, so that the SIGTERM of a stop reaches both; waits for
it, and writes how it ended. stdout of the command (one JSON document) goes to `result.json`, stderr to `log`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from agentgym.server.runs.launch import arguments_of, reads_stored_episodes
from agentgym.store import Store
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_run as runs


def main(store: str, run_id: str) -> int:
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)  # the child has the signal too, and takes its time to clear up

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with Store.open(store, create=False) as opened:
        with reading(opened.engine) as connection:
            row = connection.execute(runs.select().where(runs.c.id == run_id)).one()
        directory = Path(row.directory)
        command = [sys.executable, "-m", "agentgym", *command_line(row.kind, row.config, run_id, store, directory)]
        with (directory / "log").open("ab") as log, (directory / "result.json").open("wb") as result:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=result, stderr=log)
            code = child.wait()
        status = "done" if code == 0 else "stopped" if stopping else "failed"
        with writing(opened.engine) as connection:
            ended = {"status": status, "exit_code": code, "ended_at": time.time()}
            connection.execute(runs.update().where(runs.c.id == run_id).values(**ended))
    return code


def command_line(kind: str, config: Mapping[str, Any], run_id: str, store: str, directory: Path) -> list[str]:
    """The command of a run; writes its config file."""
    arguments = arguments_of(kind, config)  # type: ignore[arg-type]
    if len(arguments) > 1:
        split = arguments.index("--")
        return [*arguments[:split], "--store", store, "--json", *arguments[split:]]
    path = directory / "config.toml"
    path.write_text(toml(config), "utf-8")
    own = ["--output", str(directory / "checkpoints"), "--name", run_id] if kind == "train" else []
    if not reads_stored_episodes(kind, config):  # type: ignore[arg-type]
        own += ["--run-id", run_id]
    return [kind, "--config", str(path), "--store", store, *own, "--json"]


def toml(config: Mapping[str, Any]) -> str:
    """A JSON object as TOML. JSON's strings, numbers, booleans and lists are TOML's too; null has no TOML and is left out."""
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in config.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_string(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value if one is not None)}]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
