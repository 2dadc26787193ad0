"""Re-scoring by a vLLM server: the logprobs it gives the recorded tokens as a prompt.

A server scores a prompt with the plain softmax of its logits, whatever was asked of the sampling, so only tokens of calls
that sampled from that distribution (temperature 1, no top-p, no top-k) can be compared; the others are counted as
skipped. A checkpoint (`harness.replay.rescore.Rescorer`) scores them all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt

from agentgym.errors import InputError
from agentgym.models import resolve
from agentgym.store import Sequence, Trajectory
from agentgym.store.records import Float32Array, ModelCall
from harness.policies.protocol import PolicyError
from harness.replay.rescore import Rescorer, RescoreReport, compare_tokens


class ServerRescorer:
    """Asks the vLLM server at `url` (with or without /v1). model: the name it serves; its only one if unset."""

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, timeout_s: float = 600
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout_s)
        self._model = model or self._served()

    def score(self, trajectory: Trajectory, *, version: int | None = None) -> RescoreReport:
        """Compare all action tokens that can be, or those of them that policy `version` sampled.

        Raises InputError where none can be compared, PolicyError where the server gives no usable answer.
        """
        report = compare_tokens(trajectory, self._logprobs, version=version, comparable=_is_plain)
        if not len(report.recorded) and report.skipped and version is None:
            raise InputError(
                f"no token of trajectory {trajectory.id[:8]} was sampled at temperature 1 without top-p and top-k, and a "
                "server scores no other distribution",
                hint="--rescore with the checkpoint's directory",
            )
        return report

    def close(self) -> None:
        self._client.close()

    def _logprobs(self, sequence: Sequence, positions: npt.NDArray[np.intp]) -> Float32Array:
        tokens = sequence.token_ids[: int(positions[-1]) + 1].tolist()
        body = {"model": self._model, "prompt": tokens, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        answer = self._ask("POST", "/v1/completions", body)
        try:
            scored = answer["choices"][0]["prompt_logprobs"]
            found = [scored[at][str(tokens[at])]["logprob"] for at in positions.tolist()]
        except (KeyError, IndexError, TypeError) as error:
            raise PolicyError(
                f"the server at {self._url} gives no logprobs of a prompt ({error})", hint="it must be a vLLM server"
            ) from error
        return np.array(found, np.float32)

    def _served(self) -> str:
        served = self._ask("GET", "/v1/models", None).get("data") or []
        if len(served) != 1:
            raise InputError(f"the server at {self._url} serves {len(served)} models", hint="name one")
        return served[0]["id"]

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            response = self._client.request(method, self._url + path, json=body)
            response.raise_for_status()
            return response.json()
        except httpx.HTTPStatusError as error:
            raise PolicyError(f"the server at {self._url} refused: {error.response.text[:500]}") from error
        except (httpx.HTTPError, ValueError) as error:
            raise PolicyError(f"no vLLM server answers at {self._url}: {error}") from error


def scorer_for(model: str | Path) -> Rescorer | ServerRescorer:
    """What computes logprobs with `model`: a shipped name, a transformers directory, a hub id, or the URL of a vLLM server."""
    place = resolve(str(model))
    return ServerRescorer(place) if isinstance(place, str) else Rescorer(place)


def rescore(trajectory: Trajectory, model: str | Path, *, version: int | None = None) -> RescoreReport:
    """Score one trajectory with `model`; see `scorer_for`."""
    return scorer_for(model).score(trajectory, version=version)


def _is_plain(call: ModelCall) -> bool:
    return call.sampling.temperature == 1 and call.sampling.top_p == 1 and call.sampling.top_k <= 0
