"""The typed client against the real application."""

from __future__ import annotations

import httpx
import pytest
from serving import listening

from agentgym.client import Client, ServerError
from agentgym.server import ServerSettings, create_app
from agentgym.server.api.runs import Run


@pytest.fixture
def app(filled, tmp_path):
    return create_app(str(filled), ServerSettings(auth=True, runs_dir=tmp_path / "runs"))


@pytest.fixture
def client(app):
    """A client of the application behind a real socket."""
    token, _ = app.state.tokens.create("client", "run")
    with listening(app) as address, Client(address, token) as opened:
        yield opened


def test_trajectories_stream_over_pages(client) -> None:
    assert [one.id for one in client.trajectories(limit=1)] == ["good", "failed", "hostile"]
    assert [one.id for one in client.trajectories(has_reward=False)] == ["failed"]
    assert client.trajectory("go").id == "good"
    assert client.detail("good").verdicts == {"t::a": "passed", "t::b": "failed"}
    assert client.calls("good").calls[0].generation_token_ids == [40_004, 5]
    assert client.report(run_id="run")["episodes"] == 2
    assert list(client.tasks()) == []
    assert {one.id for one in client.runs()} == {"run", "other"}


def test_a_refusal_says_what_the_server_said(client) -> None:
    with pytest.raises(ServerError, match="no trajectory 'nothing'") as caught:
        client.trajectory("nothing")
    assert (caught.value.status, caught.value.exit_code) == (404, 2)


def test_a_run_is_launched_and_watched_to_its_end(client) -> None:
    run = client.launch("rollout", {"tasks": ["no-such-task"]})
    assert run.process
    assert run.process.status == "running"
    *_, last = client.watch(run.id)
    assert last.process
    assert last.process.status == "failed"
    assert "no-such-task" in client.log(run.id)


def test_what_passes_is_tried_again_under_one_key_and_silence_has_a_hint(monkeypatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    keys = []

    def flaky(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        return httpx.Response(503, text="a proxy's page")

    with Client("http://x", transport=httpx.MockTransport(flaky)) as client, pytest.raises(ServerError, match="503"):
        client.stop("r")
    assert len(keys) == 4
    assert len(set(keys)) == 1
    with Client("http://127.0.0.1:9") as client, pytest.raises(ServerError, match="does not answer") as caught:
        client.health()
    assert caught.value.hint == "agentgym serve"


def test_a_first_try_that_is_still_at_work_is_waited_for_and_a_refusal_is_not(monkeypatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    run = dict.fromkeys(Run.model_fields) | {"id": "r", "episodes": 0, "solved": 0, "graded": 0, "tokens": 0}
    run |= {"terminations": {}, "policies": [], "tasks": 0}
    answers = [
        httpx.Response(409, json={"detail": "still at work"}, headers={"retry-after": "1"}),
        httpx.Response(201, json=run),
        httpx.Response(409, json={"detail": "there is a run 'r'"}),
    ]
    with Client("http://x", transport=httpx.MockTransport(lambda _: answers.pop(0))) as client:
        assert client.launch("rollout").id == "r"
        with pytest.raises(ServerError, match="there is a run"):
            client.launch("rollout", run_id="r")
    assert answers == []


def test_an_export_that_breaks_off_leaves_no_file(tmp_path) -> None:
    def half(_: httpx.Request) -> httpx.Response:
        def body():
            yield b"{}"
            raise httpx.ReadError("gone")

        return httpx.Response(200, content=body())

    with Client("http://x", transport=httpx.MockTransport(half)) as client, pytest.raises(ServerError, match="gone"):
        client.export(tmp_path / "x.jsonl", format="json")
    assert list(tmp_path.iterdir()) == []
