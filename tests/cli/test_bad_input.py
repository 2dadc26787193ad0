"""Bad input gets a clear error, the right exit code and one JSON document, and loses nothing that was there before."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.models import DEFAULT_MODEL, pull
from agentgym.sandbox.images import connect
from agentgym.sandbox.labels import PREFIX
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.store import Store
from agentgym.tasks import shipped_tasks

GOLD = ("--policy", "gold", "--any-status", "--run-id", "r")


def agentgym(*arguments: str, store: Path | str, timeout: float = 200.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentgym", *arguments]
    environment = os.environ | {"AGENTGYM_STORE": str(store)}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=environment)


def refused(*arguments: str, store: Path | str) -> tuple[int, dict[str, str]]:
    """Exit code and error of a command that must fail before it has a result."""
    done = agentgym(*arguments, "--json", store=store)
    assert "Traceback" not in done.stderr, done.stderr
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode
    return done.returncode, document["error"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """A copy of the tutorial task that a test may break."""
    (source,) = [path for path in shipped_tasks() if path.name == "tutorial-duration"]
    return Path(shutil.copytree(source, tmp_path / "own-task"))


@pytest.fixture
def engine():
    try:
        client = connect(10)
    except BackendUnavailable as error:
        pytest.skip(f"no Docker engine: {error}")
    yield client
    client.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rollout"], "no task was named"),
        (["rollout", "tutorial-duraton"], 'did you mean "tutorial-duration"'),
        (["rollout", "tutorial-duration", *GOLD[:2]], "not validated"),
        (["rollout", "tutorial-duration", "--polcy", "gold"], "No such option"),
        (["rollout", "tutorial-duration", *GOLD[2:], "--model", "nosuch"], "no directory, shipped name"),
        (["store", "show", "zzz"], "no trajectory"),
        (["store", "show", "zzz\udcff"], "is not UTF-8"),
        (["store", "ls", "--version-min", "99999999999999999999"], "less than or equal to 2147483647"),
        (["tasks", "list", "--status", "vlaid"], "'valid'"),
        (["tasks", "import", "swe-bench", "none.jsonl"], "none.jsonl"),
        (["quickstart", "--model", "http://localhost:1"], "not a server"),
    ],
)
def test_what_the_user_gave_wrong_is_named_with_exit_code_2(store: Path, arguments: list[str], says: str) -> None:
    Store.open(store).close()
    if arguments[0] == "quickstart":
        arguments = [*arguments, "--output", str(store.parent / "quickstart")]
    code, error = refused(*arguments, store=store)
    assert code == 2
    assert says in error["message"]


def test_an_unknown_key_of_a_file_names_the_nearest(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("concurency = 3\n")
    code, error = refused("rollout", "tutorial-duration", "@", str(file), store=store)
    assert code == 2
    assert 'did you mean "concurrency"' in error["message"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda task: (task / "task.toml").write_text("[agentgym\n"), "cannot be read"),
        (lambda task: _replace(task / "task.toml", "fail_to_pass", "fail_to_pas"), "fail_to_pas"),
        (lambda task: shutil.rmtree(task / "tests"), "tests"),
        (lambda task: (task / "instruction.md").unlink(), "instruction.md: missing"),
        (lambda task: (task / "instruction.md").write_bytes(b"caf\xe9"), "instruction.md: not UTF-8"),
        (lambda task: (task / "task.toml").write_text("x = " + "[" * 5000), "cannot be read"),
        (lambda task: os.mkfifo(task / "tests" / "pipe"), "neither a file nor a link"),
    ],
)
def test_a_broken_task_says_what_is_wrong_and_is_not_entered(store: Path, tutorial: Path, change, says: str) -> None:
    change(tutorial)
    code, error = refused("tasks", "register", str(tutorial), store=store)
    assert code == 2
    assert says in error["message"]


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


@pytest.mark.parametrize(
    ("kind", "code"), [("directory", 2), ("text", 2), ("other database", 2), ("newer", 3), ("nowhere", 3)]
)
def test_a_store_that_is_none_is_refused_and_left_as_it_is(tmp_path: Path, store: Path, kind: str, code: int) -> None:
    if kind == "directory":
        store.mkdir()
    elif kind == "text":
        store.write_text("some notes, not a database\n" * 40)
    elif kind == "other database":
        sqlite3.connect(store).execute("CREATE TABLE notes (text)")
    elif kind == "newer":
        Store.open(store).close()
        with sqlite3.connect(store) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
    else:
        store = Path("/proc/none/store.db")
    before = _content(store)
    for arguments in (["store", "ls"], ["rollout", "tutorial-duration", *GOLD]):
        found, error = refused(*arguments, store=store)
        if not (kind == "nowhere" and arguments[0] == "store"):  # nothing is there to list: a wrong name
            assert found == code, error
    assert _content(store) == before


def _content(store: Path) -> object:
    """What the file says, whatever journal a database keeps beside it."""
    if not store.is_file():
        return None
    if not store.read_bytes().startswith(b"SQLite"):
        return store.read_bytes()
    with contextlib.closing(sqlite3.connect(store)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("fault", ["no weights", "noise", "tensors missing", "no tokenizer"])
def test_a_model_directory_that_is_not_whole_is_refused_by_rollout_and_train(
    store: Path, tmp_path: Path, fault: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    source = pull(DEFAULT_MODEL)
    for file in source.iterdir():
        if file.name != "model.safetensors" and not (fault == "no tokenizer" and "token" in file.name):
            shutil.copy(file, model)
    if fault == "noise":
        (model / "model.safetensors").write_bytes(os.urandom(10_000))
    elif fault == "tensors missing":
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(source / "model.safetensors", "pt") as tensors:
            kept = {name: tensors.get_tensor(name) for name in list(tensors.keys())[5:]}
        save_file(kept, model / "model.safetensors", {"format": "pt"})
    elif fault == "no tokenizer":
        (model / "model.safetensors").symlink_to(source / "model.safetensors")
    Store.open(store).close()
    code, error = refused("rollout", "tutorial-duration", "--any-status", "--model", str(model), store=store)
    assert code == 2
    assert str(model) in error["message"]
    if fault != "no tokenizer":
        train = ["--store", str(store), "--model", str(model), "--output", str(tmp_path / "out")]
        code, error = refused("train", *train, store=store)
        assert code == 2
        assert str(model) in error["message"]


def test_an_image_that_does_not_build_shows_its_log_and_stops_no_other_task(
    store: Path, tutorial: Path, engine
) -> None:
    dockerfile = tutorial / "environment/Dockerfile"
    _append(dockerfile, "\nRUN echo tail-of-the-log && false\n")
    tasks = [str(tutorial), "tutorial-duration"]
    done = agentgym("rollout", *tasks, *GOLD, "--json", store=store)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert [one["task_id"] for one in document["trajectories"]] == ["tutorial-duration"]
    assert "tail-of-the-log" in done.stderr
    assert "\x1b" not in done.stderr
    done = agentgym("images", "build", *tasks, "--json", store=store)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert list(document["images"]) == ["tutorial-duration"]
    assert "tail-of-the-log" in document["failed"]["own-task"]


def test_a_sandbox_that_dies_is_the_environment_s_failure_and_the_episode_starts_again(store: Path, engine) -> None:
    killed: list[str] = []

    def kill_the_first(pid: int) -> None:
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            for one in engine.containers(filters={"label": f"{PREFIX}pid={pid}"}):
                engine.remove_container(one["Id"], force=True)
                killed.append(one["Id"])
            time.sleep(0.02)

    command = [sys.executable, "-m", "agentgym", "rollout", "tutorial-duration", *GOLD, "--backend", "docker", "--json"]
    environment = os.environ | {"AGENTGYM_STORE": str(store)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        killer = threading.Thread(target=kill_the_first, args=(process.pid,))
        killer.start()
        out, err = process.communicate(timeout=200)
        killer.join()
    assert killed
    assert process.returncode == 0, err
    assert [one["reward"] for one in json.loads(out)["trajectories"]] == [1.0]


def test_a_full_disk_ends_the_run_with_exit_code_3_and_keeps_what_was_stored(tiny_disk: Path) -> None:
    store = tiny_disk / "store.db"
    Store.open(store).close()
    (tiny_disk / "filler").write_bytes(b"\0" * (shutil.disk_usage(tiny_disk).free - 64_000))
    code, error = refused("rollout", "tutorial-duration", *GOLD, store=store)
    assert code == 3
    assert "full" in error["message"] or "I/O" in error["message"]
    (tiny_disk / "filler").unlink()
    assert json.loads(agentgym("store", "check", "--json", store=store).stdout)["ok"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks", "list"],
        ["tasks", "show", "tutorial-duration"],
        ["store", "ls"],
        ["store", "check"],
        ["sandbox", "reap"],
        ["doctor"],
        ["models", "pull"],
    ],
)
def test_json_is_exactly_one_document(store: Path, arguments: list[str]) -> None:
    Store.open(store).close()
    done = agentgym(*arguments, "--json", store=store)
    assert isinstance(json.loads(done.stdout), dict)
    assert "\x1b" not in done.stdout + done.stderr
