"""The vLLM server of the policy, in its own environment (`make` sets it up), on a port of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx

from agentgym.errors import MachineError

START_SECONDS = 900


class PolicyServer:
    """At most one server; `serve` starts it on the weights asked for, unless it serves them already."""

    def __init__(self, log: Path, *, seed: int) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.python = os.environ.get("AGENTGYM_VLLM_PYTHON") or str(cache / "agentgym/vllm-venv/bin/python")
        self.log = log
        self.seed = seed
        self.weights: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    def command(self, weights: Path, port: int) -> list[str]:
        return [
            self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(weights), "--host", "127.0.0.1",
            "--port", str(port), "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager", "--seed",
            str(self.seed), "--logprobs-mode", "processed_logprobs", "--enable-scale-out",
            # On a CPU vLLM 0.32 dies when it cuts the prompt of a request that has a seed; after new weights it lays all anew.
            "--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192",
        ]  # fmt: skip

    def serve(self, weights: Path) -> str:
        """The URL of a server with these weights, an untied checkpoint. Raises MachineError where none comes up."""
        if self._process is not None and self._process.poll() is None and self.weights == weights:
            return self._url
        self.close()
        if not Path(self.python).exists():
            raise MachineError(f"no vLLM: {self.python} does not exist", hint="make learn sets it up")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(weights, port),
                stdout=output,
                stderr=output,
                env={**os.environ, **settings},
                start_new_session=True,
            )
        self._url, self.weights = f"http://127.0.0.1:{port}", weights
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise MachineError(f"the vLLM server did not start; its log is {self.log}")
            time.sleep(1)
        return self._url

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process = self.weights = None

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self._url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False
