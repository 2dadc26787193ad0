"""The task record: one problem, whatever it came from.

A task is a directory in the Harbor layout (`task.toml`, `instruction.md`, `environment/Dockerfile`, `tests/`,
`solution/`) whose `task.toml` has an `[agentgym]` table for what Harbor lacks. Everything above this room reads the
fields below and asks `hidden_tests` and `gold_patch` for the material; where that material comes from (files in the
directory, a PyPI release pair, ...) is the task source's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentgym.errors import InputError
from agentgym.sandbox.protocol import ImageSpec, Limits


class TaskError(InputError):
    """A task directory, manifest or row cannot be used; the message lists every fault with its key."""


class TaskMaterial(Protocol):
    """Where a task's hidden material comes from. Both may fetch and cache; neither is ever called inside a sandbox."""

    def hidden_tests(self) -> Path:
        """A local directory whose tree is laid over the workdir when grading."""
        ...

    def gold_patch(self) -> bytes:
        """The reference solution as `git diff --binary` against the image's workdir."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One validated problem.

    judge: what decides, see `agentgym.verify.grading`. reward: "outcome" (0 or 1) or "fraction" (of expected tests that
    passed). groups: named sets of expected tests, each an element of the reward vector. canaries: tests that must fail.
    id: unique name. digest: "sha256:..." over everything that defines the task. test_paths: globs relative to the
    workdir of files the tests own; they are restored before grading and changes to them never reach the grader.
    test_command: argv that runs the tests named after it (pytest ids). fail_to_pass, pass_to_pass: exact test ids.
    """

    id: str
    digest: str
    instruction: str
    root: Path
    image: ImageSpec
    material: TaskMaterial
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    test_paths: tuple[str, ...]
    test_command: tuple[str, ...]
    judge: str = "tests"
    reward: str = "outcome"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    canaries: tuple[str, ...] = ()
    test_env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    agent_timeout_s: float = 600.0
    verifier_timeout_s: float = 300.0
    language: str = "python"
    difficulty: str = ""
    split: str = "train"
    source: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @property
    def workdir(self) -> str:
        return self.image.workdir
