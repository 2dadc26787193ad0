"""`task.toml` as pydantic models: Harbor's tables (schema 1.0 to 1.4) and our `[agentgym]` table.

Two strictnesses. `[agentgym]` is ours: an unknown key is a fault. Harbor's tables grow with Harbor, so a key we do
not know is left alone unless it is nearly one we do know (then it is a typo that would silently lose a limit). What
Harbor can ask and we cannot give (several steps, MCP servers, GPUs, other operating systems) is a fault of its own,
never ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_UNITS = {"": 1 / 1024**2, "B": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def _size_mb(value: Any) -> Any:
    """Harbor's older spelling of sizes, "2G" or "512M", as whole mebibytes; numbers are mebibytes already."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", value, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{value!r} is not a size such as '2G' or '512M'")
    return max(1, round(float(match.group(1)) * _UNITS[match.group(2).upper()]))


SizeMb = Annotated[int, BeforeValidator(_size_mb), Field(gt=0)]


class HarborTable(BaseModel):
    """A table of Harbor's own: keys beyond those we read pass through, likely typos do not (see `faults`)."""

    model_config = ConfigDict(extra="allow")


class TaskTable(HarborTable):
    name: str | None = Field(default=None, description="Package name, `org/name`")
    description: str = Field(default="", description="One line for listings")
    version: str | None = Field(default=None, description="Version of the task itself")
    keywords: list[str] = Field(default_factory=list, description="Search words; become tags")
    authors: list[Any] = Field(default_factory=list, description="Who wrote the task")


class MetadataTable(HarborTable):
    difficulty: str = Field(default="", description="easy, medium or hard")
    category: str = Field(default="", description="Kind of work; becomes a tag")
    tags: list[str] = Field(default_factory=list, description="Free tags")


class AgentTable(HarborTable):
    timeout_sec: float | None = Field(default=None, gt=0, description="Wall time of one episode")
    user: str | int | None = Field(default=None, description="User the agent runs as")


class VerifierTable(HarborTable):
    timeout_sec: float = Field(default=600.0, gt=0, description="Wall time of the tests")
    env: dict[str, str] = Field(default_factory=dict, description="Environment of the tests")
    user: str | int | None = Field(default=None, description="User the tests run as")


class SolutionTable(HarborTable):
    env: dict[str, str] = Field(default_factory=dict, description="Environment of solve.sh")


class EnvironmentTable(HarborTable):
    build_timeout_sec: float = Field(default=600.0, gt=0, description="Wall time of the image build")
    docker_image: str | None = Field(default=None, description="Image to use instead of environment/Dockerfile")
    cpus: float | None = Field(default=None, gt=0, description="CPU limit")
    memory_mb: SizeMb | None = Field(default=None, description="Memory limit in MiB")
    memory: SizeMb | None = Field(default=None, description="Older spelling of memory_mb, as a size such as '2G'")
    storage_mb: SizeMb | None = Field(default=None, description="Disk limit in MiB")
    storage: SizeMb | None = Field(default=None, description="Older spelling of storage_mb")
    allow_internet: bool | None = Field(default=None, description="May commands reach the network?")
    network_mode: Literal["public", "no-network", "allowlist"] | None = Field(
        default=None, description="Newer spelling"
    )
    allowed_hosts: list[str] = Field(default_factory=list, description="Hosts of network_mode 'allowlist'")
    workdir: str | None = Field(
        default=None, description="Where commands start; default: the Dockerfile's last WORKDIR"
    )
    env: dict[str, str] = Field(default_factory=dict, description="Environment of every command")
    os: str = Field(default="linux", description="Operating system of the image")
    gpus: int | None = Field(default=None, ge=0, description="GPUs the task needs")
    gpu_types: list[str] | None = Field(default=None, description="Acceptable GPU models")
    tpu: Any = Field(default=None, description="TPU the task needs")
    mcp_servers: list[Any] = Field(default_factory=list, description="Tool servers beside the sandbox")
    skills_dir: str | None = Field(default=None, description="Folder of agent skills inside the image")
    healthcheck: Any = Field(default=None, description="Command that says when the environment is ready")

    @model_validator(mode="after")
    def _one_spelling(self) -> EnvironmentTable:
        for new, old in (("memory_mb", "memory"), ("storage_mb", "storage")):
            values = {getattr(self, new), getattr(self, old)} - {None}
            if len(values) > 1:
                raise ValueError(f"{new} and {old} disagree: {sorted(values)} MiB")
        return self


class FilesSource(BaseModel):
    """All lies in the task directory: `tests/hidden` is laid over the workdir, `solution/gold.patch` solves it."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["files"] = Field(default="files", description="Source kind")
    hidden: str = Field(
        default="tests/hidden", description="Tree laid over the workdir when grading, relative to the task directory"
    )
    gold: str = Field(
        default="solution/gold.patch", description="Reference solution as a diff, relative to the task directory"
    )


_SHA256 = r"^[0-9a-f]{64}$"


class PypiSource(BaseModel):
    """Two releases of one package: the older one's tree is the problem, the newer one's source and tests the answer."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["pypi"] = Field(description="Source kind")
    package: str = Field(description="Distribution name")
    old: str = Field(description="Version that has the bug")
    new: str = Field(description="Version that mended it")
    old_filename: str = Field(description="Source distribution of `old`")
    new_filename: str = Field(description="Source distribution of `new`")
    old_sha256: str = Field(pattern=_SHA256, description="Pinned digest of old_filename")
    new_sha256: str = Field(pattern=_SHA256, description="Pinned digest of new_filename")


class BenchmarkSource(BaseModel):
    """A row of a SWE-bench-family data set: a published image, and tests that the data set's own spec runs."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["benchmark"] = Field(description="Source kind")
    benchmark: str = Field(description="Name of the importer that read the row")
    repo: str = Field(description="Repository, `owner/name`")
    base_commit: str = Field(description="Commit that the problem starts from")
    version: str = Field(default="", description="Version that selects the spec")
    gold: str = Field(default="solution/gold.patch", description="Reference solution, relative to the task directory")
    row: str = Field(default="tests/row.json", description="The row as it was imported")
    tests: str = Field(default="tests/test.patch", description="The hidden tests, as a diff")
    script: str = Field(default="tests/run.sh", description="Commands that run the tests, as the benchmark has them")
    parser: str = Field(default="", description="What reads the log of that script; empty where nothing does")
    ungraded: str = Field(default="", description="Why the row cannot be graded")


class ScriptSource(BaseModel):
    """A plain Harbor task: `solution/solve.sh` solves it and `tests/test.sh` writes the reward; there is no diff to grade."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["script"] = Field(description="Source kind")


Source = Annotated[FilesSource | PypiSource | BenchmarkSource | ScriptSource, Field(discriminator="kind")]


class AgentGymTable(BaseModel):
    """What Harbor lacks: where the material comes from, which tests decide, and which files the tests own."""

    model_config = ConfigDict(extra="forbid")
    source: Source = Field(
        default_factory=lambda: FilesSource(kind="files"), description="Where hidden tests and gold come from"
    )
    judge: Literal["tests", "junit", "tap", "script", "log"] = Field(
        default="tests",
        description="What is believed: pytest under our plugin, a JUnit or TAP report of test_command, the reward file of "
        "tests/test.sh, or (imported benchmarks only) the log",
    )
    reward: Literal["outcome", "fraction"] = Field(
        default="outcome",
        description="0 or 1, or the share of expected tests that passed (which pays for doing nothing)",
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Elements of the reward vector: name = expected ids, or beginnings that end in *",
    )
    fail_to_pass: list[str] = Field(
        default_factory=list, description="Test ids that fail before and pass after the solution"
    )
    pass_to_pass: list[str] = Field(default_factory=list, description="Test ids that pass before and after")
    canaries: list[str] = Field(
        default_factory=list, description="Tests that must fail (junit, tap): the first and the last to run among them"
    )
    expected: str | None = Field(default=None, description="JSON file with both lists, relative to the task directory")
    test_command: list[str] = Field(
        default_factory=lambda: ["python3", "-m", "pytest"],
        min_length=1,
        description="argv that runs tests named after it",
    )
    test_env: dict[str, str] = Field(default_factory=dict, description="Environment of the tests")
    test_paths: list[str] = Field(
        default_factory=list, description="Globs below the workdir that the tests own; restored before grading"
    )
    workdir: str = Field(default="/testbed", pattern=r"^/.+", description="Root of the repository inside the image")
    overlay: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="Folder of environment/ that the Dockerfile's last line copies to the workdir: tasks that differ in nothing "
        "else share one image",
    )
    network: bool = Field(default=False, description="May the agent's commands reach the network?")
    pids: int = Field(default=512, gt=0, description="Process limit")
    language: str = Field(default="python", description="Main language of the code to change")
    split: Literal["train", "held-out"] = Field(default="train", description="May it be trained on?")
    licence: str = Field(default="", description="Licence of the code the task is about")

    @model_validator(mode="after")
    def _consistent(self) -> AgentGymTable:
        if self.expected and (self.fail_to_pass or self.pass_to_pass):
            raise ValueError("give the test ids either inline or in the file named by `expected`, not both")
        if (self.judge == "log") != isinstance(self.source, BenchmarkSource):
            raise ValueError(
                'judge = "log" and source kind "benchmark" go together: no other task is judged by its output'
            )
        if self.judge in ("junit", "tap") and not any("{report}" in word for word in self.test_command):
            raise ValueError(f'judge = "{self.judge}" needs {{report}} in test_command: the file the runner writes to')
        if self.judge in ("junit", "tap") and not self.canaries and self.test_command[0].rpartition("/")[2] != "node":
            raise ValueError(
                f'judge = "{self.judge}" needs canaries: hidden tests that must fail, the first and the last to run, so that '
                "a solution which makes the runner agree with everything gives itself away"
            )
        if self.judge == "script" and (self.expected or self.fail_to_pass or self.pass_to_pass):
            raise ValueError('judge = "script" takes no test ids: tests/test.sh decides')
        return self


class Manifest(HarborTable):
    """All of task.toml."""

    version: str | None = Field(default=None, description="Older spelling of schema_version")
    schema_version: str | None = Field(default=None, description="Version of Harbor's layout")
    task: TaskTable | None = Field(default=None, description="Package information")
    metadata: MetadataTable = Field(default_factory=MetadataTable, description="Labels")
    agent: AgentTable = Field(default_factory=AgentTable, description="Limits of the agent")
    verifier: VerifierTable = Field(default_factory=VerifierTable, description="Limits of the tests")
    environment: EnvironmentTable = Field(default_factory=EnvironmentTable, description="The image and its limits")
    solution: SolutionTable = Field(default_factory=SolutionTable, description="The oracle")
    source: str | None = Field(default=None, description="Where Harbor got the task")
    steps: list[Any] | None = Field(default=None, description="Parts of a several-step task")
    artifacts: list[Any] = Field(default_factory=list, description="Files that Harbor collects")
    agentgym: AgentGymTable | None = Field(default=None, description="What Harbor lacks")
