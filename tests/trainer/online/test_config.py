"""What cannot be trained as meant is an error before anything starts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from trainer.errors import TrainConfigError
from trainer.online.assemble import assembled
from trainer.online.config import OnlineConfig


def config(**values: object) -> OnlineConfig:
    settings = {"mode": "async", "model": Path("m"), "store": "s.db", "output": Path("runs/mine")}
    return OnlineConfig.model_validate(settings | values)


def test_a_run_is_named_after_its_output_so_that_it_can_go_on() -> None:
    assert config().run_id == "train-mine"
    assert config(run_id="other").run_id == "other"
    assert config(mode="offline").run_id is None


@pytest.mark.parametrize("credit", ["grpo", "rloo", "dr-grpo", "dapo", "vpo", "drpo", "treerl"])
def test_group_rules_refuse_groups_of_one(credit: str) -> None:
    with pytest.raises(TrainConfigError, match="group_size = 1"):
        config(credit=credit, objective="reinforce")
    config(credit=credit, objective="reinforce", group_size=2)


def test_a_batch_holds_at_least_one_group() -> None:
    with pytest.raises(TrainConfigError, match="less than one group of 8"):
        config(credit="grpo", objective="grpo", group_size=8, batch_trajectories=4)


def test_demonstrations_are_not_rolled_out() -> None:
    with pytest.raises(TrainConfigError, match="demonstrations"):
        config(imitate=True, objective="sft")


def test_the_kl_acts_in_one_place() -> None:
    with pytest.raises(ValueError, match="'loss' or 'reward'"):
        config(reference=Path("m"), reference_kl=0.1, reference_kl_in="both")
    with pytest.raises(TrainConfigError, match="without a reference"):
        config(reference_kl=0.1)
    with pytest.raises(TrainConfigError, match="the KL would act nowhere"):
        config(reference=Path("m"), reference_kl=0.1, reference_kl_in="reward", credit="grpo", group_size=2)


def test_a_band_has_its_ends_in_order() -> None:
    with pytest.raises(TrainConfigError, match="above band_high"):
        config(band_low=0.9, band_high=0.1)


@pytest.mark.parametrize(
    ("sampling", "told"),
    [("top_p = 0.9", "top_p 0.9"), ("top_k = 20", "top_k 20"), ("temperature = 0.0", "temperature 0")],
)
async def test_truncated_sampling_without_kept_sets_is_refused(tmp_path: Path, sampling: str, told: str) -> None:
    profile = tmp_path / "cut.toml"
    profile.write_text(f'name = "cut"\ntools = ["submit"]\n[prompts]\nsystem = "Go."\n[sampling]\n{sampling}\n')
    with pytest.raises(TrainConfigError, match=told):
        async with assembled(config(profile=str(profile)), [], [], None, None, None):  # type: ignore[arg-type]
            pass


class OldServer(BaseHTTPRequestHandler):
    """A vLLM server from before weight labels: exact ids and logprobs, and no more."""

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/v1/models" else 404, {"data": [{"id": "m", "max_model_len": 64}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            self._answer(404, {})
            return
        choice = {"token_ids": [1], "prompt_token_ids": body["prompt"], "finish_reason": "length"}
        self._answer(200, {"choices": [choice | {"logprobs": {"token_logprobs": [0.0]}}]})

    def _answer(self, status: int, document: object) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def old_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), OldServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_staleness_needs_versions(old_server: str) -> None:
    with pytest.raises(TrainConfigError, match="staleness has no versions"):
        async with assembled(config(server=old_server), [], [], None, None, None):  # type: ignore[arg-type]
            pass


def test_tensorboard_shows_every_number_in_its_group(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from trainer.online.measures import Board

    board = Board(tmp_path)
    board.write(1, {"train_success": 0.5, "kl": 0.1, "policy_loss": -1.0, "dropped/stale": 2.0, "staleness/3": 0.25})
    board.write(2, {"train_success": 0.75})
    board.close()
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert set(found.Tags()["scalars"]) == {
        "rollout/train_success",
        "ratio/kl",
        "policy/policy_loss",
        "dropped/stale",
        "ratio/staleness/3",
    }
    assert [(point.step, point.value) for point in found.Scalars("rollout/train_success")] == [(1, 0.5), (2, 0.75)]
    Board(None).write(1, {"kl": 0.1})
