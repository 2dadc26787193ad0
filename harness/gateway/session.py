"""One episode of another harness: its key, its requests, and the record they leave.

A request is answered by one call of the policy, recorded once, however often the client has to ask for it:

    the client went away before it had the answer   the generation goes on; the same request again gets its answer
    the client says that it asks again              (a retry header, an idempotency key) the same answer
    the policy failed                               nothing was sampled and nothing is recorded; asking again tries again, and
                                                    never takes an answer that an equal request was given
    the same request after a delivered answer       another sample: an agent may want several

Budgets are the profile's. The first one that is spent ends the episode in the eyes of the record, and every further request is
refused; the agent's own process may take its time to notice. Requests run at once as long as the budget has room for all they
may sample; one that might not fit beside the others waits for what they leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentgym.sandbox.protocol import SandboxError
from agentgym.store.records import ContextEvent, Int32Array, Sampling, Step, Termination
from harness.budget import Budget
from harness.gateway.ask import Answer, Ask
from harness.gateway.conversation import Conversation
from harness.gateway.evidence import Exchange, settle
from harness.gateway.live import Live
from harness.gateway.reading import read
from harness.gateway.refusal import Refusal
from harness.policies.protocol import Generation, PolicyError, StreamingPolicy
from harness.recorder import Recorder
from harness.tools import TOOLS, Observation
from harness.workplace import HarnessError, Workplace
from harness.workspace_tree import workspace_tree


@dataclass(slots=True, eq=False)
class Session:
    """Open between `Gateway.admit` and `Gateway.dismiss`. own_sampling: what clients say about sampling is ignored."""

    place: Workplace
    own_sampling: bool = False
    key: str = field(default_factory=lambda: "sk-agentgym-" + secrets.token_urlsafe(24))
    ended: Termination | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Future[Termination] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _budget: Budget = field(init=False)
    _conversation: Conversation = field(init=False)
    _known: dict[str, list[Exchange]] = field(default_factory=dict)
    _owed: Counter[str] = field(default_factory=Counter)
    _running: set[asyncio.Task[Answer]] = field(default_factory=set)
    _exchanges: list[Exchange] = field(default_factory=list)
    _failure: PolicyError | None = None
    _errors: list[str] = field(default_factory=list)
    _executing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        setting = self.place.setting
        limits = setting.profile.limits
        context = min(limits.max_context, setting.policy.context_length)
        self._budget = Budget(limits, context, limits.wall_time_s or setting.task.agent_timeout_s)
        self._conversation = Conversation(setting.renderer)

    @property
    def record(self) -> Recorder:
        return self.place.record

    @property
    def policy_failed(self) -> bool:
        """The last thing the policy was asked, it could not answer."""
        return self._failure is not None

    @property
    def deadline(self) -> float:
        """`time.monotonic()` at which acting ends."""
        return self._budget.deadline

    def describe(self) -> dict[str, Any]:
        """What an agent needs to know to begin."""
        setting, limits = self.place.setting, self.place.setting.profile.limits
        return {
            "task": setting.task.id,
            "instruction": setting.task.instruction,
            "workdir": setting.task.workdir,
            "model": setting.policy.model or setting.policy.name,
            "limits": {
                "requests": limits.max_turns,
                "tokens": limits.max_tokens,
                "context": self._budget.context_length,
            },
            "seconds_left": max(0.0, self.deadline - time.monotonic()),
            "ended": self.ended,
        }

    def ask(self, ask: Ask, *, retry: bool = False, key: str | None = None, live: bool = False) -> Exchange:
        """The answer to a request, under way. retry: the client says it asks again. key: its idempotency key. live: it wants to
        read along.
        """
        known = self._known.setdefault(ask.digest, [])
        if (again := self._asked_again(ask.digest, retry=retry, key=key)) is not None:
            again.requests += 1
            return again
        exchange = Exchange(ask, key, Live(ask, self.place.setting.renderer) if live else None)
        exchange.task = asyncio.create_task(self._answer(ask, exchange))
        exchange.task.add_done_callback(lambda task: self._settle(ask, exchange))
        known.append(exchange)
        self._running.add(exchange.task)
        return exchange

    async def execute(self, arguments: Mapping[str, Any]) -> Observation:
        """Run a command in the episode's sandbox and record it as a step; raises Refusal."""
        if self.ended is not None:
            raise _over(self.ended)
        started = time.monotonic()
        try:
            # One at a time, so that each step's tree is the one it left.
            async with self._executing:
                with self.record.phase("tool"):
                    tools = self.place.tools(self.deadline)
                    seen = await TOOLS["exec"].run(tools, arguments)
                    tree = await self._tree() if seen.valid else None
        except SandboxError as error:
            self.fail(error)
            raise Refusal(503, f"the sandbox failed: {error}", code="sandbox_failure") from error
        step = Step(
            # What an agent does before it has asked for anything belongs to its first request.
            call_index=max(0, len(self.record.calls) - 1),
            tool="exec",
            arguments=dict(arguments),
            observation=seen.text,
            valid=seen.valid,
            exit_code=seen.exit_code,
            duration=time.monotonic() - started,
            truncated=seen.truncated,
            tree_hash=tree,
        )
        self.record.steps.append(step)
        return seen

    def finish(self, termination: Termination = Termination.SUBMITTED) -> None:
        """The agent is done; what a budget has ended stays ended by it."""
        if not self.finished.done():
            self.finished.set_result(self.ended or termination)

    def fail(self, error: BaseException) -> None:
        """The episode cannot go on, and not because of the policy."""
        if not self.finished.done():
            self.finished.set_exception(error)

    async def close(self) -> None:
        """No more requests; what is being sampled is given up. Lays the record out (see `evidence`)."""
        unfinished = list(self._running)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        settle(self.record, self._exchanges, errors=self._errors, unfinished=len(unfinished))

    def verdict(self, termination: Termination) -> Termination:
        """How the episode ended, once the agent has; raises PolicyError or HarnessError where that was not the policy's
        doing.
        """
        if self._failure is not None:
            raise self._failure
        if not self.record.calls:
            if self._running or self.ended is Termination.TIME_LIMIT:
                raise PolicyError(f"no answer within the episode's {self._budget.wall_time_s:g} s")
            if self.ended is None:
                how = "ran out of time" if termination is Termination.TIME_LIMIT else "ended"
                raise HarnessError(f"the agent {how} without asking the policy for anything")
        return self.ended or termination

    async def _answer(self, ask: Ask, exchange: Exchange) -> Answer:
        """Sample the answer and record the call; raises Refusal and PolicyError."""
        laid = exchange.prompt = self._conversation.render(ask)
        exchange.after = len(self._exchanges)
        prompt = laid.token_ids
        async with self._room(len(prompt), ask.max_tokens) as room:
            sampling = self.record.next_sampling()
            sampling = sampling if self.own_sampling else ask.sampling(sampling)
            started_at = time.time()
            if exchange.live is not None:
                exchange.live.begin(prompt)
            generation = await self._generate(prompt, sampling, room, exchange.live)
            answer = read(ask, prompt, generation, self.place.setting.renderer)
            if exchange.live is not None:
                answer = replace(answer, id=exchange.live.id, created=exchange.live.created)
            self.record.call(prompt, answer.generation, sampling, ContextEvent.APPEND, started_at)
            self._budget.spend(len(answer.generation.token_ids))
            exchange.dropped = len(generation.token_ids) - len(answer.generation.token_ids)
            self._exchanges.append(exchange)
            self._conversation.take(ask, laid, answer)
            return answer

    @contextlib.asynccontextmanager
    async def _room(self, prompt_tokens: int, asked: int | None) -> AsyncIterator[int]:
        """How many tokens may be sampled, set aside while the block runs. Waits where calls under way may need what is left;
        raises Refusal where it is spent.
        """
        while True:
            if self.ended is not None:
                raise _over(self.ended)
            if (spent := self._budget.exhausted(prompt_tokens)) is not None:
                self._end(spent)
                raise self._too_long(prompt_tokens) if spent is Termination.CONTEXT_EXHAUSTED else _over(spent)
            room = self._budget.call_tokens(prompt_tokens)
            room = min(room, asked or room)
            if self._budget.fits(room):
                break
            others = {task for task in self._running if task is not asyncio.current_task()}
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        self._budget.held.append(room)
        try:
            yield room
        finally:
            self._budget.held.remove(room)

    async def _generate(self, prompt: Int32Array, sampling: Sampling, max_tokens: int, live: Live | None) -> Generation:
        setting = self.place.setting
        generate: Callable[..., Awaitable[Generation]] = setting.policy.generate
        if live is not None and isinstance(setting.policy, StreamingPolicy):
            generate = partial(setting.policy.stream, on_tokens=live.take)
        timer = asyncio.timeout(self.deadline - time.monotonic())
        try:
            with self.record.phase("inference"):
                async with timer:
                    return await generate(
                        prompt,
                        sampling=sampling,
                        max_tokens=max_tokens,
                        stop_token_ids=setting.renderer.get_stop_token_ids(),
                        episode_id=self.record.id,
                    )
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise PolicyError("the policy gave the request up") from error
        except TimeoutError as error:
            if not timer.expired():
                raise PolicyError(f"the policy's own time-out passed: {error}") from error
            self._end(Termination.TIME_LIMIT)
            raise _over(Termination.TIME_LIMIT) from error

    def _end(self, termination: Termination) -> None:
        """A budget is spent: nothing more is sampled or executed."""
        self.ended = self.ended or termination
        self.over.set()

    def _settle(self, ask: Ask, exchange: Exchange) -> None:
        """A request has its answer, or has none: then asking again tries again."""
        self._running.discard(exchange.task)
        if exchange.task.cancelled():
            self._known[ask.digest].remove(exchange)
            return
        error = exchange.task.exception()
        if error is None:
            self._failure = None
            return
        self._known[ask.digest].remove(exchange)
        self._errors.append(f"{type(error).__name__}: {error}")
        if isinstance(error, PolicyError):
            self._failure = error
            self._owed[ask.digest] += exchange.key is None
        elif not isinstance(error, Refusal):
            self.fail(error)  # a bug of ours: nobody's verdict

    def _asked_again(self, digest: str, *, retry: bool, key: str | None) -> Exchange | None:
        """Which of the equal requests before, oldest first, this one repeats; None where it wants a sample of its own."""
        known = self._known[digest]
        if key is not None:
            return next((exchange for exchange in known if exchange.key == key), None)
        if abandoned := next((exchange for exchange in known if exchange.abandoned), None):
            return abandoned
        if retry and self._owed[digest]:  # it may be one that failed: what others were answered is not its answer
            self._owed[digest] -= 1
            return None
        return known[-1] if retry and known else None

    def _too_long(self, tokens: int) -> Refusal:
        return Refusal(
            400,
            f"This model's maximum context length is {self._budget.context_length} tokens, and your messages are {tokens}.",
            code="context_length_exceeded",
            param="messages",
        )

    async def _tree(self) -> str | None:
        if not self.place.setting.profile.tree_hashes:
            return None
        return await workspace_tree(self.place.live, self.place.setting.task.workdir)


def _over(ended: Termination) -> Refusal:
    return Refusal(403, f"this episode is over: {ended.value}", code="episode_over")
