"""Grades: what the hidden tests said about one patch. `agentgym.verify.grading.grade` produces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Patch:
    """The agent's work as it left its sandbox: `git diff --binary` against the image's workdir, untracked files
    included.

    tree_hash: git tree of the workspace. truncated: the size cap refused it (graded as no solution).
    """

    diff: bytes
    tree_hash: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Grade:
    """reward: 1.0 or 0.0, None where the verifier itself failed (then `error` says why).

    verdicts: every expected test id -> "passed" | "failed" | "error" | "skipped" | "missing".
    vector: per-group fractions in [0, 1]: "fail_to_pass", "pass_to_pass", the task's own groups; for a task judged by a
    reward file, its criteria. log: tail of the runner's output, for people. notes: what the verifier dropped, refused or
    found tampered with, one line each. judge: what was believed: "plugin" (signed by our pytest plugin), "junit", "tap",
    "reward file", or "stdout" (imported benchmarks only). peak_memory_mb: of the grading sandbox, page cache included;
    None where it was not asked for, or nothing counts it.
    """

    reward: float | None
    verdicts: Mapping[str, str] = field(default_factory=dict)
    vector: Mapping[str, float] = field(default_factory=dict)
    duration: float = 0.0
    error: str | None = None
    log: str = ""
    notes: tuple[str, ...] = ()
    judge: str = ""
    peak_memory_mb: float | None = None
