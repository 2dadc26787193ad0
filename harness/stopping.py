"""Behaviour that ends an episode: going round in circles, or making no sense.

A loop is a cycle of calls (one call, or up to `repeated_cycle` of them) that came `repeated_actions` times in a row
with the same arguments *and* the same observations. Observations count, because running the tests again after an edit
is no loop.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from agentgym.store.records import Step, Termination
from harness.profile import StopRules


@dataclass(slots=True)
class Watch:
    """Sees each step once; `verdict` is why the episode should end, or None."""

    rules: StopRules
    _seen: list[str] = field(default_factory=list)
    _invalid: int = 0
    _failing_edits: int = 0

    def see(self, step: Step) -> Termination | None:
        if not step.valid:
            self._invalid += 1
            if self.rules.invalid_actions and self._invalid >= self.rules.invalid_actions:
                return Termination.INVALID_ACTIONS
            return None
        self._invalid = 0
        self._seen.append(
            json.dumps([step.tool, dict(step.arguments), step.observation], sort_keys=True, ensure_ascii=False)
        )
        if self._loops() or self._edits_fail(step):
            return Termination.REPEATED_ACTIONS
        return None

    def _loops(self) -> bool:
        times = self.rules.repeated_actions
        if times < 1:
            return False
        for length in range(1, max(1, self.rules.repeated_cycle) + 1):
            tail = self._seen[-length * times :]
            if len(tail) == length * times and tail == tail[:length] * times:
                return True
        return False

    def _edits_fail(self, step: Step) -> bool:
        """Failed edits in a row, whatever their arguments; looking around in between does not reset the count."""
        if step.tool not in ("edit", "replace", "file_editor") or step.arguments.get("command") == "view":
            return False
        self._failing_edits = self._failing_edits + 1 if step.exit_code else 0
        return bool(self.rules.failing_edits) and self._failing_edits >= self.rules.failing_edits
