"""Servers that tests start for themselves: PostgreSQL on a Unix socket, vLLM on a free port. Both can be killed and come back."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

WITHOUT_GPU = Path(__file__).parent / "trainer" / "online" / "without_gpu"


def free_port() -> int:
    """A port of the loopback that nobody listens on now, for a program that cannot say which it took."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Postgres:
    """A server of our own, as an unprivileged user (it refuses root); without PostgreSQL the test is skipped. url: its database.

    options: settings of the server, as in "fsync=off".
    """

    def __init__(self, *options: str) -> None:
        programs = _postgres_programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
        pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'agentgym[postgres]')")
        home = Path(tempfile.mkdtemp(prefix="agentgym-pg-"))  # a socket's path must be short, and not root's alone
        self._programs, self._home = programs, home
        self._options = [f"unix_socket_directories={home}", "listen_addresses=", *options]
        self._account: dict[str, Any] = {}
        user = getpass.getuser()
        if os.getuid() == 0:
            entry = next((e for e in pwd.getpwall() if e.pw_name == "postgres"), pwd.getpwnam("nobody"))
            user = entry.pw_name
            self._account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(home, entry.pw_uid, entry.pw_gid)
        initialise = [programs / "initdb", "-D", home / "data", "-U", user, "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(initialise, check=True, capture_output=True, cwd=home, **self._account)
        self.url = sa.URL.create("postgresql+psycopg", username=user, database="postgres", query={"host": str(home)})
        self.start()

    def start(self) -> None:
        settings = [argument for option in self._options for argument in ("-c", option)]
        with (self._home / "log").open("ab") as log:
            command: Sequence[str | Path] = [self._programs / "postgres", "-D", self._home / "data", *settings]
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._home, **self._account)
        engine, deadline = sa.create_engine(self.url), time.monotonic() + 120
        while True:
            try:
                engine.connect().close()
                break
            except sa.exc.OperationalError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"PostgreSQL did not start:\n{(self._home / 'log').read_text(errors='replace')}")
                time.sleep(0.1)
        engine.dispose()

    def kill(self) -> None:
        """As a crash would: connections break, and the next start recovers."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(60)

    def remove(self) -> None:
        """Ends it and removes its data."""
        if self._server.poll() is None:
            self.kill()
        shutil.rmtree(self._home, ignore_errors=True)


def _postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


class Vllm:
    """A vLLM server of our own that takes part in weight updates; fp32, so that logprobs can be compared.

    log: what it says. adapters: how many LoRA adapters it serves in one batch. transfer: takes weights from another process,
    with a stand-in for NCCL (`WITHOUT_GPU`).
    """

    def __init__(
        self, python: str, model: Path, log: Path, *, context: int, adapters: int = 0, transfer: bool = False
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
        self._command += ["--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", str(context)]
        self._command += ["--enforce-eager", "--logprobs-mode", "processed_logprobs", "--enable-scale-out"]
        self._command += [
            "--no-enable-chunked-prefill",
            "--max-num-batched-tokens",
            str(max(context, 8192)),
        ]  # see docs/training.md
        if adapters:
            self._command += ["--enable-lora", "--max-loras", str(adapters)]
        self._settings = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"} if adapters else {}
        if transfer:
            self._command += ["--weight-transfer-config", '{"backend": "nccl"}']
            self._settings["PYTHONPATH"] = str(WITHOUT_GPU)

    def start(self, *, wait: bool = True) -> None:
        settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", **self._settings}
        with self._log.open("a") as output:
            self._server = subprocess.Popen(
                self._command, stdout=output, stderr=output, env={**os.environ, **settings}, start_new_session=True
            )
        deadline = time.monotonic() + 500
        while wait and not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the vLLM server did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(1)

    @contextlib.contextmanager
    def running(self) -> Iterator[Vllm]:
        """Started, and killed afterwards."""
        try:
            self.start()
            yield self
        finally:
            self.kill()

    def stop(self) -> None:
        """Asks it to end; kills it where it does not."""
        os.killpg(self._server.pid, signal.SIGTERM)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False
