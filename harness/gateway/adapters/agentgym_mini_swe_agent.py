"""mini-swe-agent's way into a sandbox of ours: an environment class for its own `environment_class` setting.

Runs inside mini-swe-agent's process, with whatever Python that has, so it needs nothing but the standard library and
mini-swe-agent itself; agentgym need not be installed there. Where the sandbox is, the variables say that every agent gets:

    AGENTGYM_GATEWAY_URL   the gateway           AGENTGYM_EPISODE_KEY   this episode's key

The word that ends an episode is looked for as mini-swe-agent's own environments do.
"""

from __future__ import annotations

import importlib
import json
import os
import urllib.error
import urllib.request
from typing import Any

_DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SLACK_S = 60.0
"""How much longer than a command may take its answer is waited for."""


class _Settings(dict[str, Any]):
    """What mini-swe-agent reads of a config: `model_dump` and fields."""

    def model_dump(self, **_: object) -> dict[str, Any]:
        return dict(self)


class SandboxEnvironment:
    """`minisweagent.Environment` over the sandbox of the episode."""

    def __init__(self, *, cwd: str = "", env: dict[str, str] | None = None, timeout: int = 60) -> None:
        self._url = os.environ["AGENTGYM_GATEWAY_URL"]
        self._key = os.environ["AGENTGYM_EPISODE_KEY"]
        self.config = _Settings(cwd=cwd or os.environ["AGENTGYM_WORKDIR"], env=env or {}, timeout=timeout)
        uname = self._post({"command": "uname -s; uname -r; uname -v; uname -m"}, 30)["output"].splitlines()
        self._system = dict(zip(("system", "release", "version", "machine"), uname, strict=False))

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        allowed = timeout or self.config["timeout"]
        arguments = {
            "command": action.get("command") or ":",
            "cwd": cwd or self.config["cwd"],
            "env": self.config["env"],
            "timeout": allowed,
        }
        seen = self._post(arguments, allowed)
        output = {"output": seen["output"], "returncode": seen["exit_code"], "exception_info": ""}
        if seen["exit_code"] is None:
            output |= {"returncode": -1, "exception_info": f"The command was killed after {allowed} seconds."}
        first, *rest = output["output"].lstrip().splitlines(keepends=True) or [""]
        if first.strip() == _DONE and output["returncode"] == 0:
            submission = "".join(rest)
            extra = {"exit_status": "Submitted", "submission": submission}
            exceptions = importlib.import_module("minisweagent.exceptions")
            raise exceptions.Submitted({"role": "exit", "content": submission, "extra": extra})
        return output

    def get_template_vars(self, **given: Any) -> dict[str, Any]:
        return {**self.config, **self._system, **given}

    def serialize(self) -> dict[str, Any]:
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"environment": dict(self.config), "environment_type": kind}}}

    def _post(self, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._url}/episode/exec",
            data=json.dumps(arguments).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds + _SLACK_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"the gateway refused a command: {error.code} {error.read().decode()}") from error
