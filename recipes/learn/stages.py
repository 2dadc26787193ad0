"""The plan: each stage is one `agentgym` command whose JSON result is kept; a stage whose result is there is not run again.

    tasks → gold → (sft-N → probe-N)* → tries → sft-instances, sft-modules → ARM → ARM-instances, ARM-modules → summary

A stage that was interrupted is run again under the same name and goes on where its command can: rollouts skip what the store
has, training resumes from its newest checkpoint.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from agentgym.errors import AgentGymError
from agentgym.models import untie
from agentgym.observe.success import Counts, Outcomes
from agentgym.store import Store, TrajectoryFilter
from agentgym.tasks import toml
from agentgym.tasks.mutation.mutants import Choice
from recipes.learn.families import snippet_sources
from recipes.learn.serving import PolicyServer
from recipes.learn.settings import LearnSettings

PROFILE = Path(__file__).parent / "profile.toml"
HELD_OUT = ("instances", "modules")
SOMETIMES = 0.4
"""Families with about this success are trained on: there is something to reinforce and much to learn."""
T = TypeVar("T")


class StageFailed(AgentGymError):
    """A command of the plan failed; its words are above."""


@dataclass
class Plan:
    """dry_run: say what would be done, and do nothing."""

    settings: LearnSettings
    arm: str
    dry_run: bool = False
    server: PolicyServer = field(init=False)

    def __post_init__(self) -> None:
        self.out = self.settings.output
        self.server = PolicyServer(self.out / "vllm.log", seed=self.settings.seed)

    def run(self) -> None:
        """Every stage, in order. Raises StageFailed."""
        for folder in ("stages", "config"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        try:
            self.make_tasks()
            start = self.cold_start()
            families = self.choose(start)
            held_out = {"instances": of_families(self.tasks("instances"), families), "modules": self.tasks("modules")}
            for which in HELD_OUT:
                self.measure(f"sft-{which}", held_out[which], start, version=0)
            self.reinforce(start, of_families(self.tasks("train"), families))
            final = self.published()
            for which in HELD_OUT:
                self.measure(f"{self.arm}-{which}", held_out[which], final, version=self.settings.rl.steps)
        finally:
            self.server.close()

    def make_tasks(self) -> None:
        s = self.settings
        sets = ",".join(f"{name}={count}" for name, count in s.sets.items())
        sources = snippet_sources(s.rl_modules, Choice(frozenset(s.operators), s.max_lines))
        options = {"sets": sets, "show": s.show, "operators": ",".join(s.operators), "max-lines": s.max_lines}
        options |= {"spellings": s.spellings, "seed": s.seed, "out": self.out / "tasks", "backend": s.backend}
        self.stage("tasks", ["tasks", "mutate", *sources], options)

    def cold_start(self) -> Path:
        """Imitate gold edits in rounds until a probe on held-out instances succeeds often enough; where the weights lie."""
        s = self.settings
        self.stage("gold", ["rollout"], {}, config=self.scripted("gold", "cold-start"))
        start, few = self.out, spread(self.tasks("instances"), s.sft.probe_tasks)
        # The weights of a round are gone once the next has ended: where a run goes on under another `enough`, from the last.
        for number in range(max(1, self.rounds()), s.sft.rounds + 1):
            if self.result(f"sft-{number}") is None:
                self.server.close()  # imitation has the machine to itself
            self.stage(f"sft-{number}", ["train"], {}, config=self._imitation(number))
            start = self.untied(number)
            found = self.measure(f"probe-{number}", few, start, version=0)
            if found and (found["pass@1"] or {"value": 0.0})["value"] >= s.sft.enough:
                break
        return start

    def choose(self, start: Path) -> list[str]:
        """The families to train on: those that the start solves sometimes, by a few training tasks of each."""
        s, tasks = self.settings, self.tasks("train")
        if not s.families:
            return sorted({family_of(task) for task in tasks})
        tried = [task for _, own in groupby(tasks, key=family_of) for task in spread(list(own), s.tries)]
        self.measure("tries", tried, start, version=0)
        if self.dry_run:
            return []
        with Store.open(s.store) as store:
            rates = by_family(Outcomes.of(store.query(TrajectoryFilter(run_id="tries")))).graded
        nearest = sorted(rates, key=lambda family: (abs(rates[family].rate - SOMETIMES), family))
        return sorted(nearest[: s.families])

    def measure(self, name: str, tasks: list[str], weights: Path, *, version: int) -> dict[str, Any] | None:
        """Success on held-out tasks, sampled by the server."""
        config = self._evaluation(name, version=version) | {"tasks": tasks, "split": "all"}
        if self.result(name) is None:
            config |= {"model": self.serve(weights), "tokenizer": self.settings.model}
        return self.stage(name, ["eval"], {}, config=config)

    def reinforce(self, start: Path, tasks: list[str]) -> None:
        s, arm = self.settings, self.settings.arms[self.arm]
        done = self.result(self.arm)
        url = self.serve(start) if done is None else ""
        config: dict[str, Any] = {
            "mode": "async",
            "model": str(self.sft_policy()),
            "server": url,
            "output": str(self.out / self.arm),
            "run_id": self.arm,
            "tasks": tasks,
            "task_split": "all",
            "steps": s.rl.steps - self._taken(self.arm),
            "batch_trajectories": s.rl.batch,
            "group_size": arm.group or s.rl.group,
            "credit": arm.credit,
            "credit_options": json.dumps(arm.credit_options),
            "objective": arm.objective,
            "objective_options": json.dumps(arm.objective_options),
            "policy_learning_rate": s.rl.learning_rate,
            "value_learning_rate": s.rl.value_learning_rate,
            "value_head_learning_rate": s.rl.value_head_learning_rate,
            "value_updates": s.rl.value_updates,
            "critic_layers": s.rl.critic_layers,
            "ahead": s.rl.ahead,
            "max_staleness": s.rl.max_staleness,
            "bootstrap_truncated": False,  # the turns are the task's: a bug not mended in them is not mended
            "concurrency": s.concurrency,
            "keep_checkpoints": 1,
            "backend": s.backend,
            **self._common(),
        }
        self.stage(self.arm, ["train"], {}, config=config)
        self.server.weights = self.published()  # what the last update published is what it serves

    def stage(
        self, name: str, command: list[str], options: Mapping[str, Any], *, config: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """The result of a command, run now unless it was run before. None in a dry run."""
        if (known := self.result(name)) is not None:
            return known
        words = [*command, *_words({**options, "store": self.settings.store})]
        if config is not None:
            words = [*command, "--config", str(self.write_config(name, config))]
        print(f"── {name}: agentgym {shlex.join(words)}", file=sys.stderr, flush=True)
        if self.dry_run:
            return None
        started, place = time.monotonic(), self.out / "stages" / f"{name}.json"
        before = place.with_suffix(".spent")  # seconds that interrupted calls have taken
        done = subprocess.run([sys.executable, "-m", "agentgym", *words, "--json"], stdout=subprocess.PIPE, check=False)
        seconds = time.monotonic() - started + (float(before.read_text()) if before.exists() else 0.0)
        if done.returncode:
            before.write_text(str(seconds))
            raise StageFailed(f"stage {name} ended with exit code {done.returncode}", hint="run the same command again")
        result = json.loads(done.stdout)
        result = result if isinstance(result, dict) else {"result": result}
        partial = place.with_suffix(".partial")
        partial.write_text(json.dumps({**result, "stage_seconds": seconds}))
        partial.rename(place)
        return result

    def write_config(self, name: str, config: Mapping[str, Any]) -> Path:
        """A file for --config; what is None is left to its default."""
        file = self.out / "config" / f"{name}.toml"
        file.write_text("".join(f"{key} = {toml.value(value)}\n" for key, value in config.items() if value is not None))
        return file

    def scripted(self, run_id: str, which: str) -> dict[str, Any]:
        """Rollouts of the gold edits of one set, in the tokens of the model."""
        s = self.settings
        config = {"policy": "edit", "concurrency": s.concurrency, "run_id": run_id, **self._acting(), "model": s.model}
        return config | {"tasks": self.tasks(which)}

    def result(self, name: str) -> dict[str, Any] | None:
        place = self.out / "stages" / f"{name}.json"
        return json.loads(place.read_text()) if place.exists() else None

    def tasks(self, which: str) -> list[str]:
        """The directories of one set."""
        return sorted(str(path) for path in (self.out / "tasks" / which).glob("*") if (path / "task.toml").exists())

    def rounds(self) -> int:
        """Rounds of imitation that have ended."""
        return max((n for n in range(1, self.settings.sft.rounds + 1) if self.result(f"sft-{n}")), default=0)

    def sft_policy(self) -> Path:
        """The checkpoint the cold start ended with."""
        last = self.result(f"sft-{self.rounds()}")
        return Path(last["checkpoint"]) / "policy" if last else self.out / "sft/step-…/policy"

    def start(self, number: int) -> Path:
        """What a round of imitation ended with, as the server takes it."""
        return self.out / f"sft-{number}-untied"

    def untied(self, number: int) -> Path:
        start = self.start(number)
        if not self.dry_run and not (start / "config.json").exists():
            untie(self.sft_policy(), start)
        return start

    def published(self) -> Path:
        """What the arm's last update published."""
        return self.out / self.arm / "published" / f"version-{self.settings.rl.steps:06d}"

    def serve(self, weights: Path) -> str:
        return "http://127.0.0.1:PORT" if self.dry_run else self.server.serve(weights.resolve())

    def _taken(self, run: str) -> int:
        """Updates that earlier calls have left checkpoints of."""
        found = sorted((self.out / run).glob("step-*"))
        return int(found[-1].name.removeprefix("step-")) if found else 0

    def _imitation(self, number: int) -> dict[str, Any]:
        s = self.settings
        return {
            "model": s.model,
            "output": str(self.out / "sft"),
            "run_id": "gold",
            "imitate": True,
            "objective": "sft",
            "credit": "constant",
            "min_reward": 1.0,
            "passes": 1000,
            "steps": number * s.sft.steps_per_round - self._taken("sft"),
            "batch_trajectories": s.sft.batch,
            "policy_learning_rate": s.sft.learning_rate,
            "keep_checkpoints": 1,
            "checkpoint_every": 10,
            **self._common(),
        }

    def _evaluation(self, name: str, *, version: int) -> dict[str, Any]:
        s = self.settings
        return {
            "run_id": name,
            "rollouts": s.evaluations,
            "concurrency": s.concurrency,
            "policy_version": version,
            **self._acting(),
        }

    def _acting(self) -> dict[str, Any]:
        return {"profile": str(PROFILE), "backend": self.settings.backend, "any_status": True, **self._seeded()}

    def _common(self) -> dict[str, Any]:
        return {"profile": str(PROFILE), "any_status": True, "precision": self.settings.precision, **self._seeded()}

    def _seeded(self) -> dict[str, Any]:
        return {"seed": self.settings.seed, "store": str(self.settings.store)}


def family_of(task: str) -> str:
    """What the name of a task (or its directory) begins with: the bug of a spelling, the module of any other bug."""
    return Path(task).name.rpartition("-")[0]


def of_families(tasks: Sequence[str], families: Sequence[str]) -> list[str]:
    return [task for task in tasks if family_of(task) in families]


def by_family(outcomes: Outcomes) -> Outcomes:
    """The outcomes of all tasks of a family together."""
    merged: dict[str, Counts] = {}
    for task, found in outcomes.graded.items():
        family = merged.setdefault(family_of(task), Counts())
        family.solved += found.solved
        family.graded += found.graded
    return Outcomes(merged)


def spread(items: Sequence[T], count: int) -> list[T]:
    """`count` of them, evenly over their order: tasks come sorted by module, and a probe should see all modules."""
    return [items[index * len(items) // min(count, len(items))] for index in range(min(count, len(items)))]


def _words(options: Mapping[str, Any]) -> list[str]:
    return [
        word
        for name, value in options.items()
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]
