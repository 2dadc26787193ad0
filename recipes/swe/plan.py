"""The commands of the recipe, in order, and the configs they read.

    import, validate  →  serve  →  before  →  train (torchrun)  →  after  →  compare

`serve` stays up while the others run. Training starts again from its newest checkpoint with the same command; a server that
was restarted gets the published weights from it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.tasks import toml
from recipes.swe.settings import Benchmark, SweSettings

PORT = 8000


@dataclass(frozen=True, slots=True)
class Command:
    """What to type, where GPUs matter with which of them; `config`, if any, is what its --config file holds."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    config: Mapping[str, Any] | None = None

    def shown(self) -> str:
        given = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*given, shlex.join(self.words)])


def commands(settings: SweSettings) -> list[Command]:
    s, out, machine = settings, settings.output, settings.machine
    url = f"http://127.0.0.1:{PORT}"
    first = machine.learner_gpus
    plan = [
        command
        for part, benchmark in (("train", s.train), ("held-out", s.held_out))
        for command in _tasks(s, part, benchmark)
    ]
    plan.append(
        Command("serve", tuple(_server(s)), {**_gpus(first, first + machine.server_gpus), "VLLM_SERVER_DEV_MODE": "1"})
    )
    plan.append(_evaluation(s, "before", url, version=0))
    torchrun = ("torchrun", "--standalone", f"--nproc-per-node={first}", "-m", "agentgym")
    train = {
        "mode": "async",
        "model": str(s.model),
        "server": url,
        "output": str(out / "train"),
        "store": s.store,
        "tasks": [str(out / "tasks" / "train")],
        "task_split": "all",
        "profile": s.profile,
        "backend": s.backend,
        "concurrency": s.concurrency,
        "max_sequence_tokens": s.context,
        **s.learner,
    }
    plan.append(_configured(s, "train", (*torchrun, "train"), train, _gpus(0, first)))
    plan.append(_evaluation(s, "after", url, version=s.learner["steps"]))
    plan.append(Command("compare", ("agentgym", "eval", "--compare", "before", "after", "--store", s.store), {}))
    return plan


def write_configs(settings: SweSettings) -> list[Path]:
    """Each command's config as a TOML file where its command looks for it."""
    written = []
    for command in commands(settings):
        if command.config is not None:
            path = _config_path(settings, command.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{key} = {toml.value(value)}\n" for key, value in command.config.items()))
            written.append(path)
    return written


def _tasks(s: SweSettings, part: str, benchmark: Benchmark) -> list[Command]:
    folder = str(s.output / "tasks" / part)
    load = ("agentgym", "tasks", "import", benchmark.name, benchmark.file, "--out", folder, "--store", s.store)
    prove = ("agentgym", "tasks", "validate", folder, "--jobs", "16", "--backend", s.backend, "--store", s.store)
    return [Command(f"import-{part}", load, {}), Command(f"validate-{part}", prove, {})]


def _server(s: SweSettings) -> list[str]:
    options = {
        "model": s.model,
        "dtype": "bfloat16",
        "tensor-parallel-size": s.machine.server_gpus,
        "max-model-len": s.context,
        "max-num-seqs": s.concurrency,
        "logprobs-mode": "processed_logprobs",
        "port": PORT,
    }
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return ["python", "-m", "vllm.entrypoints.openai.api_server", *given, "--enable-scale-out"]


def _evaluation(s: SweSettings, name: str, model: str, *, version: int) -> Command:
    config = {
        "run_id": name,
        "model": model,
        "tokenizer": str(s.model),
        "policy_version": version,
        "tasks": [str(s.output / "tasks" / "held-out")],
        "split": "all",
        "profile": s.profile,
        "backend": s.backend,
        "concurrency": s.concurrency,
        "store": s.store,
    }
    return _configured(s, name, ("agentgym", "eval"), config, {})


def _configured(
    s: SweSettings, name: str, words: tuple[str, ...], config: Mapping[str, Any], environment: Mapping[str, str]
) -> Command:
    return Command(name, (*words, "--config", str(_config_path(s, name))), environment, config)


def _config_path(s: SweSettings, name: str) -> Path:
    return s.output / "config" / f"{name}.toml"


def _gpus(first: int, end: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(first, end))}
