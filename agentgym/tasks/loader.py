"""Read a task directory in the Harbor layout into a `Task`, or say everything that is wrong with it in one error."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from agentgym.sandbox.protocol import ImageSpec, Limits, Overlay
from agentgym.tasks.digest import tree_digest
from agentgym.tasks.faults import missing_faults, typo_faults, unsupported_faults, validation_faults
from agentgym.tasks.manifest import AgentGymTable, Manifest, ScriptSource
from agentgym.tasks.model import Task, TaskError
from agentgym.tasks.sources import open_source, source_faults

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


def shipped_tasks() -> list[Path]:
    """Directories of the tasks that come with the project, sorted by name."""
    root = Path(__file__).parents[2] / "environments"
    return sorted(path.parent for path in root.glob("*/task.toml"))


def task_directories(path: Path) -> list[Path]:
    """The task directory `path` itself, or those directly below it, sorted by name."""
    found = [] if (path / "task.toml").is_file() else sorted(file.parent for file in path.glob("*/task.toml"))
    return found or [path]


def load_task(path: Path) -> Task:
    """The task in directory `path`; raises TaskError that lists every fault with its key."""
    root = Path(path).resolve()
    manifest = read_manifest(root)
    faults = [*typo_faults(manifest), *unsupported_faults(manifest), *_directory_faults(root, manifest)]
    table = manifest.agentgym
    if table is None:
        workdir = manifest.environment.workdir or _dockerfile_workdir(root)
        table = AgentGymTable(
            judge="script", source=ScriptSource(kind="script"), workdir=workdir, network=_asks_for_network(manifest)
        )
    faults.extend(_overlay_faults(root, table))
    expected = _expected(root, table, faults)
    groups = _groups(table, expected, faults)
    faults.extend(source_faults(root, table))
    if faults:
        raise _refused(root, faults)
    return _task(root, manifest, table, expected, groups)


def read_manifest(root: Path) -> Manifest:
    """task.toml of the directory, validated key by key."""
    file = root / "task.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TaskError(f"{root} is no task directory: it has no task.toml") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"{file} cannot be read: {error}") from error
    missing = list(missing_faults(document))
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        raise _refused(root, [*validation_faults(error), *missing]) from error
    if missing:
        raise _refused(root, missing)
    return manifest


def _refused(root: Path, faults: list[str]) -> TaskError:
    return TaskError(
        f"{root.name}: {len(faults)} fault{'s' * (len(faults) != 1)} in this task\n  - " + "\n  - ".join(faults)
    )


def _directory_faults(root: Path, manifest: Manifest) -> Iterator[str]:
    if not _ID.fullmatch(root.name):
        yield f"directory name {root.name!r} cannot be a task id: letters, digits and . _ + - only, at most 128"
    instruction = root / "instruction.md"
    if not instruction.is_file():
        yield "instruction.md: missing"
    else:
        try:
            if not instruction.read_text(encoding="utf-8").strip():
                yield "instruction.md: empty"
        except UnicodeDecodeError as error:
            yield f"instruction.md: not UTF-8 ({error})"
    if manifest.environment.docker_image is None and not (root / "environment/Dockerfile").is_file():
        yield "environment: neither environment/Dockerfile nor environment.docker_image says what to run in"


def _overlay_faults(root: Path, table: AgentGymTable) -> Iterator[str]:
    """An overlay is only a faster way to the image that the Dockerfile says: it must say the same."""
    if table.overlay is None:
        return
    file = root / "environment/Dockerfile"
    last = file.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2] if file.is_file() else ""
    if not (root / "environment" / table.overlay).is_dir():
        yield f"agentgym.overlay: environment/{table.overlay} is no directory"
    if last.split() != ["COPY", f"{table.overlay}/", f"{table.workdir}/"]:
        yield f"agentgym.overlay: the Dockerfile must end with 'COPY {table.overlay}/ {table.workdir}/' (got {last!r})"


def _dockerfile_workdir(root: Path) -> str:
    """Where a plain Harbor task starts: the last WORKDIR of its Dockerfile."""
    file = root / "environment/Dockerfile"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.findall(r"^\s*WORKDIR\s+\"?(/[^\s\"]*)", text, re.MULTILINE | re.IGNORECASE)
    return found[-1] if found else "/app"


def _asks_for_network(manifest: Manifest) -> bool:
    """Harbor's default is a public network; we give it only where the task says that it needs it."""
    return manifest.environment.allow_internet is True or manifest.environment.network_mode == "public"


def _expected(root: Path, table: AgentGymTable, faults: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(FAIL_TO_PASS, PASS_TO_PASS), from the table or the file it names; what is wrong with them goes to `faults`."""
    lists = {"fail_to_pass": table.fail_to_pass, "pass_to_pass": table.pass_to_pass}
    if table.expected is not None:
        try:
            document = json.loads((root / table.expected).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            faults.append(f"agentgym.expected: {table.expected} cannot be read: {error}")
            return (), ()
        for name in lists:
            ids = document.get(name) if isinstance(document, dict) else None
            if not isinstance(ids, list) or not all(isinstance(test, str) and test for test in ids):
                faults.append(f"agentgym.expected: {table.expected} has no list of test ids called {name}")
            else:
                lists[name] = ids
    both = sorted(set(lists["fail_to_pass"]) & set(lists["pass_to_pass"]))
    if both:
        faults.append(f"agentgym.pass_to_pass: also in fail_to_pass: {', '.join(both[:3])}")
    for name, ids in lists.items():
        if len(set(ids)) != len(ids):
            faults.append(f"agentgym.{name}: the same test id appears more than once")
    if not lists["fail_to_pass"] and not faults and table.judge != "script":
        faults.append("agentgym.fail_to_pass: no test tells a solution from none")
    return tuple(lists["fail_to_pass"]), tuple(lists["pass_to_pass"])


def _groups(
    table: AgentGymTable, expected: tuple[tuple[str, ...], tuple[str, ...]], faults: list[str]
) -> dict[str, tuple[str, ...]]:
    """The expected tests of every named group; one that is empty, or named as ours are, goes to `faults`."""
    groups: dict[str, tuple[str, ...]] = {}
    for name, patterns in table.groups.items():
        exact = {pattern for pattern in patterns if not pattern.endswith("*")}
        starts = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
        members = [test for ids in expected for test in ids if test in exact or (starts and test.startswith(starts))]
        if name in ("fail_to_pass", "pass_to_pass"):
            faults.append(f"agentgym.groups.{name}: every task has this group already")
        elif unknown := sorted(exact - set(members)):
            faults.append(f"agentgym.groups.{name}: no expected test is called {unknown[0]!r}")
        elif not members:
            faults.append(f"agentgym.groups.{name}: no expected test belongs to it")
        groups[name] = tuple(members)
    return groups


def _task(
    root: Path,
    manifest: Manifest,
    table: AgentGymTable,
    expected: tuple[tuple[str, ...], tuple[str, ...]],
    groups: dict[str, tuple[str, ...]],
) -> Task:
    environment = manifest.environment
    defaults = Limits()
    context = root / "environment"
    settings = json.dumps([environment.docker_image, table.workdir, environment.env], sort_keys=True).encode()
    image = ImageSpec(
        name=root.name.lower(),
        digest=tree_digest(context, salt=settings),
        context=context if environment.docker_image is None else None,
        docker_image=environment.docker_image,
        workdir=table.workdir,
        env=environment.env,
        user="image" if isinstance(table.source, ScriptSource) else "agent",
        overlay=Overlay(table.overlay, tree_digest(context, salt=settings, without=table.overlay))
        if table.overlay
        else None,
    )
    limits = Limits(
        cpus=environment.cpus or defaults.cpus,
        memory_mb=environment.memory_mb or environment.memory or defaults.memory_mb,
        disk_mb=environment.storage_mb or environment.storage or defaults.disk_mb,
        pids=table.pids,
        network=table.network,
        allow_hosts=tuple(environment.allowed_hosts) if environment.network_mode == "allowlist" else (),
    )
    labels = manifest.metadata
    keywords = manifest.task.keywords if manifest.task else []
    fail_to_pass, pass_to_pass = expected
    return Task(
        id=root.name,
        digest=tree_digest(root, salt=root.name.encode()),
        instruction=(root / "instruction.md").read_text(encoding="utf-8"),
        root=root,
        image=image,
        material=open_source(root, table),
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        test_paths=tuple(table.test_paths),
        test_command=tuple(table.test_command),
        judge=table.judge,
        reward=table.reward,
        groups=groups,
        canaries=tuple(table.canaries),
        test_env={**manifest.verifier.env, **table.test_env},
        limits=limits,
        agent_timeout_s=manifest.agent.timeout_sec or 600.0,
        verifier_timeout_s=manifest.verifier.timeout_sec,
        language=table.language,
        difficulty=labels.difficulty,
        split=table.split,
        source={"licence": table.licence} | {key: str(value) for key, value in table.source.model_dump().items()},
        tags=tuple(dict.fromkeys([*labels.tags, *keywords, *([labels.category] if labels.category else [])])),
    )
