"""A tiny model with the real tokenizer, a real sandbox engine and a real task; verdicts alternate, so that there is a signal."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import sqlalchemy as sa
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from agentgym.models import pull, untie
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, SandboxBackend
from agentgym.store import Store
from agentgym.tasks import Task, load_task
from agentgym.verify import Grade
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig
from harness.profile import Limits, Profile, load_profile
from harness.render import load_renderer
from trainer.online.config import OnlineConfig
from trainer.online.loop import Parts
from trainer.online.publisher import publisher_for
from trainer.online.rollouts import Acting

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(pull())


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Two layers, random weights, tied head, the vocabulary of the default model."""
    path = tmp_path_factory.mktemp("tiny") / "model"
    torch.manual_seed(0)
    settings = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    LlamaForCausalLM(settings).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend() -> AsyncIterator[SandboxBackend]:
    try:
        backend = await open_backend("auto", owner="tests-online")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox engine here: {error}")
    yield backend
    await backend.close()


@pytest.fixture(scope="session")
def task() -> Task:
    return load_task(Path(__file__).resolve().parents[3] / "environments" / "tutorial-duration")


@pytest.fixture
def alternating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading is not what these tests are about: verdicts come in turn, at no cost."""
    rewards = cycle([1.0, 0.0, 0.0])

    async def verdict(*_: object, **__: object) -> Grade:
        return Grade(next(rewards))

    monkeypatch.setattr("harness.workplace.grade", verdict)


@pytest.fixture
def profile() -> Profile:
    """Two short turns: a random policy says nothing that could be run."""
    short = Limits(max_turns=2, max_tokens_per_turn=6, max_context=2048)
    return load_profile("tiny").model_copy(update={"limits": short})


@pytest.fixture
def configured(tiny_dir: Path, tmp_path: Path) -> Callable[..., OnlineConfig]:
    def make(**values: object) -> OnlineConfig:
        settings = {
            "mode": "async",
            "model": tiny_dir,
            "store": f"sqlite:///{tmp_path / 'store.db'}",
            "output": tmp_path / "out",
            "steps": 2,
            "batch_trajectories": 3,
            "concurrency": 2,
            "value_warmup_steps": 1,
            "policy_learning_rate": 1e-3,
            "tensorboard": False,
        }
        return OnlineConfig.model_validate(settings | values)

    return make


@pytest_asyncio.fixture(loop_scope="session")
async def parts_for(task, backend, profile, tokenizer) -> AsyncIterator[Callable[[OnlineConfig], Parts]]:
    opened: list[TorchPolicy] = []

    def make(config: OnlineConfig) -> Parts:
        policy = TorchPolicy(TorchPolicyConfig(model=str(config.model), max_batch=4), name="policy")
        opened.append(policy)
        acting = Acting(policy, load_renderer(tokenizer), profile)
        return Parts([task], acting, backend, publisher_for(policy, config.output))

    yield make
    for policy in opened:
        await policy.close()


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as store:
        yield store


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """A Python of its own that has vLLM, since vLLM pins another torch than ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = os.environ.get("AGENTGYM_VLLM_PYTHON") or str(cache / "agentgym" / "vllm-venv" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip(f"no vLLM: {python} does not exist (name a Python that has it with AGENTGYM_VLLM_PYTHON)")
    return python


@pytest.fixture
def tiny_server(vllm_python: str, tiny_dir: Path, tmp_path: Path) -> Iterator[Vllm]:
    server = Vllm(vllm_python, untie(tiny_dir, tmp_path / "untied"), tmp_path / "vllm.log")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    home = Path(tempfile.mkdtemp(prefix="agentgym-pg-"))  # a socket's path must be short, and not root's alone
    server = Postgres(home)
    yield server
    server.kill()
    shutil.rmtree(home, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Postgres:
    """A server of our own on a Unix socket, as an unprivileged user (it refuses root)."""

    def __init__(self, home: Path) -> None:
        programs = _postgres_programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
        self._programs, self._home = programs, home
        user, self._account = getpass.getuser(), {}
        if os.getuid() == 0:
            entry = next((e for e in pwd.getpwall() if e.pw_name == "postgres"), pwd.getpwnam("nobody"))
            user = entry.pw_name
            self._account: dict[str, Any] = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(home, entry.pw_uid, entry.pw_gid)
        initialise = [programs / "initdb", "-D", home / "data", "-U", user, "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(initialise, check=True, capture_output=True, cwd=home, **self._account)
        self.url = sa.URL.create("postgresql+psycopg", username=user, database="postgres", query={"host": str(home)})
        self.start()

    def start(self) -> None:
        options = [f"unix_socket_directories={self._home}", "listen_addresses=", "max_connections=40"]
        settings = [argument for option in options for argument in ("-c", option)]
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


def _postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


class Vllm:
    """A vLLM server on its own port that takes part in weight updates."""

    def __init__(self, python: str, model: Path, log: Path) -> None:
        self.url = f"http://127.0.0.1:{(port := _free_port())}"
        self._log = log
        self._command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
        self._command += ["--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"]
        self._command += ["--logprobs-mode", "processed_logprobs", "--enable-scale-out"]

    def start(self, *, wait: bool = True) -> None:
        settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
        with self._log.open("a") as output:
            self._server = subprocess.Popen(
                self._command, stdout=output, stderr=output, env={**os.environ, **settings}, start_new_session=True
            )
        deadline = time.monotonic() + 500
        while wait and not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the vLLM server did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(1)

    def kill(self) -> None:
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False
