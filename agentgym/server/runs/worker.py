"""The process of one launched run: `python -m agentgym.server.runs.worker RUN_ID`.

Runs one `agentgym` command as a child in the same process group, so that the SIGTERM of a stop reaches both; waits for
it, and writes how it ended. stdout of the command (one JSON document) goes to `result.json`, stderr to `log`.
The store is named by AGENTGYM_STORE, for the command too: its URL may hold a password, and everybody can read arguments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from agentgym.config import STORE_VARIABLE
from agentgym.server.runs.commands import command_line
from agentgym.store import Store
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_run as runs


def main(run_id: str) -> int:
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)  # the child has the signal too, and takes its time to clear up

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with Store.open(os.environ[STORE_VARIABLE], create=False) as opened:
        with reading(opened.engine) as connection:
            row = connection.execute(runs.select().where(runs.c.id == run_id)).one()
        directory = Path(row.directory)
        command = [sys.executable, "-m", "agentgym", *command_line(row.kind, row.config, run_id, directory)]
        with (directory / "log").open("ab") as log, (directory / "result.json").open("wb") as result:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=result, stderr=log)
            code = child.wait()
        status = "done" if code == 0 else "stopped" if stopping else "failed"
        with writing(opened.engine) as connection:
            ended = {"status": status, "exit_code": code, "ended_at": time.time()}
            connection.execute(runs.update().where(runs.c.id == run_id).values(**ended))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
