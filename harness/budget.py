"""What an episode may still spend, and which termination it is when something has run out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from agentgym.store.records import Termination
from harness.profile import Limits


@dataclass(slots=True)
class Budget:
    """Turns, generated tokens, context and wall time of one episode. context_length: the smaller of profile and
    policy. held: what each call under way may generate, where there may be several at once."""

    limits: Limits
    context_length: int
    wall_time_s: float
    turns: int = 0
    tokens: int = 0
    held: list[int] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float:
        """`time.monotonic()` at which acting ends."""
        return self.started + self.wall_time_s

    def exhausted(self, prompt_tokens: int) -> Termination | None:
        """Why the next call cannot be made, or None. The order is fixed, so that equal episodes end equally."""
        if self.turns >= self.limits.max_turns:
            return Termination.MAX_STEPS
        if self.tokens >= self.limits.max_tokens:
            return Termination.MAX_TOKENS
        if prompt_tokens >= self.context_length:
            return Termination.CONTEXT_EXHAUSTED
        if time.monotonic() >= self.deadline:
            return Termination.TIME_LIMIT
        return None

    def call_tokens(self, prompt_tokens: int) -> int:
        """Tokens the next call may generate; at least one where `exhausted` said None."""
        return min(
            self.limits.max_tokens_per_turn, self.limits.max_tokens - self.tokens, self.context_length - prompt_tokens
        )

    def fits(self, tokens: int) -> bool:
        """Whether a call that generates so many tokens stays within the budget whatever those under way come to."""
        turns, held = self.turns + len(self.held), self.tokens + sum(self.held)
        return turns < self.limits.max_turns and held + tokens <= self.limits.max_tokens

    def spend(self, tokens: int) -> None:
        self.turns += 1
        self.tokens += tokens
