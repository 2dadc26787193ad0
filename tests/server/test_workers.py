"""`agentgym serve --workers 2`: whichever process answers, it is one server.

A process is chosen by stopping the other one (SIGSTOP): the kernel then gives new connections to the one that runs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from serving import Serving, environment, serving

from agentgym.client import Client
from agentgym.server.access.rate import WAYS, Buckets
from agentgym.server.access.tokens import TRUST_SECONDS, Tokens
from agentgym.store import Store

ADDRESSES = itertools.count(2)
LONG = {"kind": "validate", "config": {"tasks": ["all"]}}


@pytest.fixture(scope="module")
def served(tmp_path_factory, recorded) -> Iterator[tuple[Serving, str]]:
    """A server of two processes, and an administrator's token."""
    path = tmp_path_factory.mktemp("workers") / "store.db"
    with Store.open(path) as store:
        for one in recorded:
            store.add(one)
        token, _ = Tokens(store.engine).create("tests", "admin")
    with serving(path, "--workers", "2", "--auth", "--rate", "0.5", "--max-running", "2") as one:
        eventually(lambda: len(one.workers()) == 2)
        yield one, token


@pytest.fixture
def ask(served) -> Iterator[Callable[..., httpx.Response]]:
    """Asks over a connection of its own, from an address of its own: a test does not use up the rate of another."""
    server, token = served
    client = f"127.0.0.{next(ADDRESSES)}"

    def send(method: str, path: str, *, bearer: str = token, **options) -> httpx.Response:
        transport = httpx.HTTPTransport(local_address=client, verify=False)  # no certificates to load: it is HTTP
        with httpx.Client(transport=transport, base_url=server.url, timeout=60) as http:
            headers = {"Authorization": f"Bearer {bearer}"} | options.pop("headers", {})
            return http.request(method, path, headers=headers, **options)

    return send


@contextmanager
def only(server: Serving, number: int) -> Iterator[None]:
    """New connections go to this one of the processes."""
    others = [pid for pid in server.workers() if pid != server.workers()[number]]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def eventually(true: Callable[[], object], patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.5)  # not to use up the rate


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def worker_of(run_id: str, what: str) -> bytes:
    """A file of /proc about the process that a run was launched as."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"agentgym.server.runs.worker" in words and run_id.encode() in words:
                return (process / what).read_bytes()
    raise AssertionError(f"no process of run {run_id}")


def test_a_token_made_by_one_process_opens_the_other_and_its_end_is_known_there(served, ask) -> None:
    server, _ = served
    with only(server, 0):
        made = ask("POST", "/v1/tokens", json={"name": "ci"}).json()
    with only(server, 1):
        assert ask("GET", "/v1/trajectories", bearer=made["token"]).status_code == 200
    with only(server, 0):
        assert ask("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
        assert ask("GET", "/v1/trajectories", bearer=made["token"]).status_code == 401
    time.sleep(TRUST_SECONDS)
    with only(server, 1):
        assert ask("GET", "/v1/trajectories", bearer=made["token"]).status_code == 401


def test_a_run_launched_by_one_process_is_followed_and_stopped_by_the_other(served, ask) -> None:
    server, token = served
    with only(server, 0):
        launched = ask("POST", "/v1/runs", json=LONG | {"id": "followed"})
        assert launched.status_code == 201
    told = b"AGENTGYM_SERVE=" in worker_of("followed", "environ")
    assert not told, "what the server was told is not its runs' to know"
    with only(server, 1), Client(server.url, token) as client:
        seen = client.watch("followed")
        assert next(seen).process.status == "running"  # type: ignore[union-attr]
        assert ask("POST", "/v1/runs/followed/stop").status_code == 200
        assert [one.process.status for one in seen if one.process][-1] in ("stopped", "lost")
    with only(server, 0):
        assert ask("GET", "/v1/runs/followed").json()["process"]["status"] in ("stopped", "lost")
        assert ask("POST", "/v1/runs", json=LONG | {"id": "followed"}).status_code == 409


def test_one_key_sent_to_both_processes_at_once_acts_once(served, ask) -> None:
    body, headers = {"kind": "rollout", "config": {"tasks": ["no-such-task"]}}, {"Idempotency-Key": "twice"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask("POST", "/v1/runs", json=body, headers=headers), range(8)))
    assert {one.status_code for one in answers} <= {201, 409}
    assert all("retry-after" in one.headers for one in answers if one.status_code == 409)
    started = [one.json()["id"] for one in answers if one.status_code == 201]
    assert len(set(started)) == 1
    assert ask("POST", "/v1/runs", json=body, headers=headers).json()["id"] == started[0]
    eventually(lambda: ask("GET", f"/v1/runs/{started[0]}").json()["process"]["status"] == "failed")


def test_no_more_runs_start_than_allowed_however_many_ask_at_once(served, ask) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask("POST", "/v1/runs", json=LONG | {"id": f"crowd-{n}"}), range(8)))
    started = [one.json()["id"] for one in answers if one.status_code == 201]
    assert sorted(one.status_code for one in answers) == [201, 201, *[429] * 6]
    for one in started:
        assert ask("POST", f"/v1/runs/{one}/stop").status_code == 200
    eventually(lambda: all(ask("GET", f"/v1/runs/{one}").json()["process"]["status"] != "running" for one in started))
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: ask("POST", f"/v1/runs/{started[0]}/resume").status_code, range(4)))
    assert sorted(again) == [200, 409, 409, 409]
    ask("POST", f"/v1/runs/{started[0]}/stop")


def test_requests_are_counted_over_both_processes(served, ask) -> None:
    server, _ = served

    def counted() -> float:
        text = ask("GET", "/metrics").text
        found = re.search(r'agentgym_http_requests_total\{[^}]*route="/v1/policies"[^}]*\} (\S+)', text)
        return float(found[1]) if found else 0.0

    before = counted()
    for number, count in ((0, 3), (1, 4)):
        with only(server, number):
            for _ in range(count):
                assert ask("GET", "/v1/policies").status_code == 200
    for number in (0, 1):
        with only(server, number):
            assert counted() == before + 7


def test_a_client_has_one_rate_whichever_process_answers(served, ask) -> None:
    """The burst is 200 requests: 100 of one process and 100 of the other use it up."""
    server, _ = served
    answers = []
    for number in (0, 1, 0, 1):
        with only(server, number):
            answers += [ask("GET", "/v1/health").status_code for _ in range(70)]
    assert 200 <= answers.count(200) < 280
    assert 429 in answers[140:]


def test_a_process_that_dies_is_replaced_and_what_it_launched_goes_on(served, ask) -> None:
    server, _ = served
    with only(server, 0):
        assert ask("POST", "/v1/runs", json=LONG | {"id": "survivor"}).status_code == 201
        first = server.workers()[0]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: len(server.workers()) == 2 and first not in server.workers())
    assert ask("GET", "/v1/runs/survivor").json()["process"]["status"] == "running"
    assert ask("POST", "/v1/runs/survivor/stop").status_code == 200
    eventually(lambda: ask("GET", "/v1/runs/survivor").json()["process"]["status"] != "running")


def test_a_server_that_is_told_to_end_does_not_wait_for_who_watches_a_run(filled) -> None:
    with serving(filled, "--workers", "2") as server, Client(server.url) as client:
        seen = client.watch("run")  # a run from a command line: its stream stays open for ten minutes
        next(seen)
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.log.read_text()
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/v1/health", trust_env=False)


def test_processes_do_not_outlive_a_parent_that_is_killed(filled) -> None:
    with serving(filled, "--workers", "2") as server:
        eventually(lambda: len(server.workers()) == 2)
        workers = server.workers()
        server.process.kill()
        eventually(lambda: not any(map(alive, workers)))


def test_an_address_that_is_taken_is_said_so(filled) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "agentgym", "serve", "--port", port, "--store", str(filled)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    assert f"port {port}: Address already in use" in done.stderr
    assert "--port" in done.stderr


def test_a_watcher_hears_the_end_of_a_run_although_the_server_was_started_again(filled) -> None:
    with serving(filled) as server, Client(server.url) as client:
        run = client.launch("rollout", {"tasks": ["no-such-task"]})
        seen = client.watch(run.id)
        next(seen)
        port = server.url.rpartition(":")[2]
        server.process.terminate()
        heard: list[str] = []
        listening = threading.Thread(target=lambda: heard.extend(one.process.status for one in seen if one.process))
        listening.start()
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.log.read_text()
        command = [sys.executable, "-m", "agentgym", "serve", "--port", port, "--store", str(filled)]
        with serving(filled, command=command):
            listening.join(120)
    assert heard[-1] == "failed"


def test_buckets_count_together_refill_and_forget_who_came_least(tmp_path) -> None:
    first, second, alone = Buckets(tmp_path / "rate"), Buckets(tmp_path / "rate"), Buckets()
    waits = [one.take("a", rate=0.001, burst=3) for one in (first, second, first, second)]
    assert waits[:3] == [0, 0, 0]
    assert waits[3] == pytest.approx(1000, rel=0.01)
    assert first.take("b", rate=0.001, burst=3) == 0
    assert alone.take("a", rate=0.001, burst=3) == 0
    assert first.take("c", rate=1e6, burst=1) == 0
    time.sleep(0.001)
    assert first.take("c", rate=1e6, burst=1) == 0
    for number in range(40_000):  # more than the table holds: nobody waits for another's requests
        assert alone.take(f"client {number}", rate=0.001, burst=1) == 0
    assert WAYS > 1
    assert alone.take("client 39999", rate=0.001, burst=1) > 0
