"""What the API says of the server's machine, of evaluations, and how trajectories leave through it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from agentgym.sandbox.census import local_sandboxes
from agentgym.sandbox.labels import Owner, lease
from agentgym.server import create_app
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.transfer import FORMATS, IN_WORDS, Transcript, export, import_file


async def test_what_is_exported_is_imported_equal(client, filled, tmp_path, recorded) -> None:
    lines = (await client.get("/v1/export?has_reward=true")).text
    (tmp_path / "out.jsonl").write_text(lines)
    with Store.open(tmp_path / "elsewhere.db") as store:
        report = import_file(store, tmp_path / "out.jsonl", run_id=None)
        assert (report.added, report.refused) == (2, [])
        assert store.get("good").calls[0].logprobs.tolist() == recorded[0].calls[0].logprobs.tolist()
        assert store.get("hostile").steps[0].observation == recorded[2].steps[0].observation
    assert len((await client.get("/v1/export?limit=1")).text.splitlines()) == 1
    [row] = [
        json.loads(one)
        for one in (await client.get("/v1/export?format=predictions&reward_min=1&limit=1")).text.splitlines()
    ]
    assert set(row) == {"instance_id", "model_name_or_path", "model_patch"}


def said(trajectory) -> Transcript:
    turns = [[{"role": "assistant", "content": f"call {number}"}] for number, _ in enumerate(trajectory.calls)]
    return Transcript([{"role": "user", "content": "Mend it."}], turns)


@pytest.mark.parametrize("format", FORMATS)
async def test_every_format_streams_what_the_command_writes(filled, tmp_path, format) -> None:
    asked = []

    def words(store, registry, where, tokenizer):
        asked.append((where.reward_min, tokenizer))
        return said

    transport = httpx.ASGITransport(app=create_app(str(filled), words=words))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/v1/export", params={"format": format, "reward_min": 1})
    path = tmp_path / ("x.parquet" if format == "parquet" else "x.jsonl")
    where = TrajectoryFilter(reward_min=1.0)
    with Store.open(filled) as store:
        report = export(store, where, format, path, transcribe=said)
    written = b"".join(Path(one).read_bytes() for one in report.files)
    assert answer.content == written if format != "predictions" else sorted(answer.content) == sorted(written)
    assert asked == ([(1.0, None)] if format in IN_WORDS else [])
    assert path.suffix.removeprefix(".") in answer.headers["content-disposition"]
    if format == "parquet":
        table = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed").read_table(path).to_pylist()
        assert [row["token_ids"] for row in table] == [[1, 2, 3, 40_004, 5]] * 2


async def test_only_a_model_that_was_pulled_may_be_named_for_words(client) -> None:
    for name in ("nobody", "../..", "/etc", "."):
        answer = await client.get("/v1/export", params={"format": "sft", "tokenizer": name})
        assert (answer.status_code, "was pulled" in answer.json()["detail"]) == (422, True)


async def test_an_evaluation_is_pass_at_k_of_a_run_and_its_comparison_with_another(client, build) -> None:
    store = client._transport.app.state.store
    for task in range(4):
        for episode in range(2):
            for run, solved in (("a", task < 1), ("b", task < 3)):
                one = build(
                    id=f"{run}{task}{episode}", run_id=run, task_id=f"t{task}", reward=float(solved), split="held-out"
                )
                store.add(one)
    found = (await client.get("/v1/evaluations/b?split=held-out&against=a")).json()
    assert found["estimates"]["pass@1"]["value"] == 0.75
    assert found["estimates"]["pass@2"]["tasks"] == 4
    assert (found["comparison"]["difference"], found["comparison"]["better"]) == (0.5, 2)
    assert found["tasks"]["t0"] == {"solved": 2, "graded": 2, "ungraded": 0}
    listed = (await client.get("/v1/evaluations")).json()["items"]
    assert {(one["run_id"], one["episodes"], one["tasks"]) for one in listed} == {("a", 8, 4), ("b", 8, 4)}
    assert (await client.get("/v1/evaluations/b?split=train")).status_code == 404


async def test_checkpoints_are_those_of_launched_training_runs(client, tmp_path) -> None:
    app = client._transport.app
    directory = tmp_path / "run" / "checkpoints" / "step-000003"
    directory.mkdir(parents=True)
    (directory / "state.json").write_text(json.dumps({"step": 3, "version": 3}))
    (directory / "manifest.json").write_text(
        json.dumps({"policy/model.safetensors": [100, "x"], "state.json": [20, "y"]})
    )
    (directory.parent / "step-000004").mkdir()  # not whole yet
    with app.state.store.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO server_run (id, kind, config, status, attempt, directory, host, created_at) "
            f"VALUES ('t', 'train', '{{}}', 'done', 1, '{tmp_path / 'run'}', 'h', 1)"
        )
    [one] = (await client.get("/v1/checkpoints")).json()["items"]
    assert (one["run_id"], one["step"], one["bytes"]) == ("t", 3, 120)
    assert one["policy"] == str(directory / "policy")
    (tmp_path / "run" / "result.json").write_text('{"steps": 3}')
    assert (await client.get("/v1/runs/t/result")).json() == {"steps": 3}
    assert [run["id"] for run in (await client.get("/v1/runs?kind=train")).json()["items"]] == ["t"]


async def test_images_and_sandboxes_are_listed_whether_or_not_an_engine_answers(client) -> None:
    for path in ("/v1/images", "/v1/sandboxes"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert isinstance(answer.json()["items"], list)


def test_a_sandbox_is_told_with_its_owner_and_whether_a_reaper_would_take_it(tmp_path) -> None:
    living = lease("sandbox", Owner.current("rollout r1"), 60)
    for name, labels in (
        ("agentgym-a", living),
        ("agentgym-b", living | {"agentgym.expires": "1", "agentgym.created": "0"}),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lease.json").write_text(json.dumps({"labels": labels}))
    (tmp_path / "agentgym-c").mkdir()
    (tmp_path / "agentgym-c" / "lease.json").write_text("{")
    dead, alive = local_sandboxes(tmp_path)
    assert (dead.id, dead.abandoned) == ("agentgym-b", "its lease has run out")
    assert (alive.owner, alive.abandoned, alive.kind) == ("rollout r1", None, "sandbox")
    assert alive.created_at == pytest.approx(time.time(), abs=5)
