"""Every way an episode ends, provoked for real: real sandboxes, real grading, scripted policies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from agentgym.sandbox.protocol import Image, Limits, Sandbox, SandboxBackend, SandboxError
from agentgym.store.records import ContextEvent, FinishReason, Termination, VersionSpan
from agentgym.store.sequences import sequences
from agentgym.verify import grade
from harness.episode import run_episode
from harness.policies.protocol import Generation
from harness.policies.scripted import SUBMIT, ScriptedPolicy, Turn, gold_script
from harness.profile import Profile, load_profile

pytestmark = pytest.mark.asyncio(loop_scope="session")


def bash(command: str, **arguments: object) -> Turn:
    return Turn(tool="bash", arguments={"command": command, **arguments})


def profile(**sections: dict[str, object]) -> Profile:
    document = load_profile("default").model_dump()
    for name, values in sections.items():
        document[name] |= values
    return Profile.model_validate(document)


@dataclass
class Watched:
    """The real backend, remembering the sandboxes it gave."""

    backend: SandboxBackend
    started: list[Sandbox] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.backend.name

    async def start(self, image: Image, limits: Limits = Limits()) -> Sandbox:
        self.started.append(await self.backend.start(image, limits))
        return self.started[-1]

    async def ensure_image(self, spec):
        return await self.backend.ensure_image(spec)

    async def all_closed(self) -> bool:
        for sandbox in self.started:
            try:
                await sandbox.exec("true", timeout=5)
            except SandboxError:
                continue
            return False
        return True


class Acting(ScriptedPolicy):
    """A script with something done to the world just before a turn is answered."""

    def __init__(self, script, renderer, act, *, turn: int) -> None:
        super().__init__(script, renderer)
        self.act, self.turn, self.seen = act, turn, 0

    async def generate(self, prompt_token_ids, **options) -> Generation:
        self.seen += 1
        if self.seen == self.turn:
            await self.act()
        return await super().generate(prompt_token_ids, **options)


@pytest.fixture
def watched(backend: SandboxBackend) -> Watched:
    return Watched(backend)


@pytest.fixture(scope="session")
def grades():
    return {}


@pytest.fixture(autouse=True)
def grade_each_patch_once(monkeypatch, grades):
    """The grader is the real one; what it said about a patch is remembered, since most episodes here leave none."""

    async def remembered(task, patch, backend, *, image):
        key = (image.ref, patch.diff)
        if key not in grades:
            grades[key] = await grade(task, patch, backend, image=image)
        return grades[key]

    monkeypatch.setattr("harness.workplace.grade", remembered)


@pytest.fixture
def episode(task, image, renderer, watched):
    async def run(policy, profile: Profile = profile(), **options):
        if not hasattr(policy, "generate"):
            policy = ScriptedPolicy(policy, renderer)
        options.setdefault("backend", watched)
        options.setdefault("image", image)
        return await run_episode(task, policy=policy, renderer=renderer, profile=profile, seed=7, **options)

    return run


async def test_submitted_and_solved(episode, task, watched, renderer):
    trajectory = await episode([Turn("Let me look."), bash("ls"), *gold_script(task)])

    assert (trajectory.termination, trajectory.reward, trajectory.error) == (Termination.SUBMITTED, 1.0, None)
    assert set(trajectory.verdicts.values()) == {"passed"}
    assert set(trajectory.timings) == {"start", "inference", "tool", "grade"}
    assert trajectory.patch.startswith("diff --git")
    assert await watched.all_closed()

    talk, look, *_, last = trajectory.steps
    assert (talk.tool, talk.valid) == ("", False)
    assert (look.tool, look.valid, look.exit_code) == ("bash", True, 0), look.observation
    assert look.tree_hash
    assert look.tree_hash != last.tree_hash
    assert [step.call_index for step in trajectory.steps] == list(range(len(trajectory.calls)))
    seeds = [call.sampling.seed for call in trajectory.calls]
    assert len(set(seeds)) == len(seeds)

    for before, call, step in zip(trajectory.calls, trajectory.calls[1:], trajectory.steps, strict=False):
        prefix = np.concatenate([before.prompt_token_ids, before.generation_token_ids])
        assert np.array_equal(call.prompt_token_ids[: len(prefix)], prefix)
        assert call.context_event is ContextEvent.APPEND
        assert step.observation in renderer.decode(call.prompt_token_ids[len(prefix) :].tolist())
    assert len(sequences(trajectory)) == 1


async def test_submitted_and_not_solved(episode):
    trajectory = await episode([SUBMIT])

    assert (trajectory.termination, trajectory.reward, trajectory.patch) == (Termination.SUBMITTED, 0.0, "")


async def test_a_patch_of_any_encoding_is_recorded_byte_for_byte(episode):
    trajectory = await episode([bash("printf 'caf\\351\\r\\n' > latin1.txt"), SUBMIT])

    assert b"+caf\xe9\r\n" in trajectory.patch.encode("utf-8", "surrogateescape")


async def test_the_same_script_and_seed_give_the_same_record(episode):
    first, second = [await episode([bash("echo one"), SUBMIT]) for _ in range(2)]

    assert [s.observation for s in first.steps] == [s.observation for s in second.steps]
    for one, two in zip(first.calls, second.calls, strict=True):
        assert np.array_equal(one.prompt_token_ids, two.prompt_token_ids)
        assert one.sampling == two.sampling
    assert first.harness_digest == second.harness_digest
    assert first.id != second.id


async def test_tests_passed_stops_at_the_first_passing_state(episode, task):
    turns = [bash("echo x > notes.txt"), *gold_script(task)[:-1], bash("git checkout -f ."), SUBMIT]

    trajectory = await episode(turns, profile(stop={"tests_passed": True}))

    assert (trajectory.termination, trajectory.reward) == (Termination.TESTS_PASSED, 1.0)
    assert len(trajectory.steps) == len(turns) - 2


async def test_a_patch_is_graded_once(episode, monkeypatch):
    """The state in which the episode ends was graded after its last step."""
    graded = []

    async def counted(task, patch, backend, *, image):
        graded.append(patch.diff)
        return await grade(task, patch, backend, image=image)

    monkeypatch.setattr("harness.workplace.grade", counted)
    turns = [bash("echo x > notes.txt"), bash("echo y > notes.txt")]

    trajectory = await episode(turns, profile(stop={"tests_passed": True}, limits={"max_turns": 2}))

    assert (trajectory.termination, trajectory.reward) == (Termination.MAX_STEPS, 0.0)
    assert trajectory.verdicts
    assert len(graded) == len(set(graded)) == 2


async def test_max_steps(episode):
    trajectory = await episode([bash(f"echo {i}") for i in range(5)], profile(limits={"max_turns": 3}))

    assert (trajectory.termination, len(trajectory.calls), trajectory.reward) == (Termination.MAX_STEPS, 3, 0.0)


async def test_max_tokens(episode):
    trajectory = await episode([bash(f"echo {i}") for i in range(20)], profile(limits={"max_tokens": 60}))

    assert trajectory.termination is Termination.MAX_TOKENS
    assert sum(len(call.generation_token_ids) for call in trajectory.calls) >= 60
    assert len(trajectory.calls) < 20


async def test_context_exhausted(episode):
    turns = [bash(f"seq {i} 400") for i in range(20)]

    trajectory = await episode(turns, profile(limits={"max_context": 4000}))

    assert (trajectory.termination, trajectory.reward) == (Termination.CONTEXT_EXHAUSTED, 0.0)
    assert all(len(call.prompt_token_ids) < 4000 for call in trajectory.calls)


async def test_time_limit_while_a_command_runs(episode):
    trajectory = await episode([bash("sleep 60"), bash("sleep 60"), SUBMIT], profile(limits={"wall_time_s": 3.0}))

    assert (trajectory.termination, trajectory.reward) == (Termination.TIME_LIMIT, 0.0)
    assert "[killed after" in trajectory.steps[-1].observation


async def test_time_limit_while_the_policy_thinks(episode, renderer):
    policy = Acting([bash("echo 1"), SUBMIT], renderer, lambda: asyncio.sleep(60), turn=2)

    trajectory = await episode(policy, profile(limits={"wall_time_s": 3.0}))

    assert (trajectory.termination, len(trajectory.calls)) == (Termination.TIME_LIMIT, 1)


async def test_time_that_ran_out_before_any_answer_is_no_zero(episode, renderer):
    """On a starved machine, or behind a slow server, nothing was sampled: that says nothing about the policy."""
    policy = Acting([SUBMIT], renderer, lambda: asyncio.sleep(60), turn=1)

    trajectory = await episode(policy, profile(limits={"wall_time_s": 2.0}))

    assert (trajectory.termination, trajectory.reward, trajectory.calls) == (Termination.POLICY_FAILURE, None, ())
    assert "no answer within the episode's 2 s" in trajectory.error


async def test_repeated_actions(episode):
    trajectory = await episode([bash("ls")] * 9, profile(stop={"repeated_actions": 3}))

    assert (trajectory.termination, len(trajectory.steps)) == (Termination.REPEATED_ACTIONS, 3)


async def test_invalid_actions(episode):
    turns = [Turn("hm"), bash("ls"), *[Turn(f"I think {i}") for i in range(5)]]

    trajectory = await episode(turns, profile(stop={"invalid_actions": 3}))

    assert (trajectory.termination, len(trajectory.steps)) == (Termination.INVALID_ACTIONS, 5)


async def test_a_sandbox_lost_in_the_middle_is_no_zero(episode, watched, renderer):
    async def lose():
        await watched.started[-1].close()

    trajectory = await episode(Acting([bash("echo 1"), bash("echo 2"), SUBMIT], renderer, lose, turn=2))

    assert (trajectory.termination, trajectory.reward) == (Termination.ENVIRONMENT_FAILURE, None)
    assert "Sandbox" in trajectory.error
    assert len(trajectory.steps) == 1


async def test_a_sandbox_lost_before_anything_happened_is_replaced(episode, watched, renderer):
    async def lose():
        await watched.started[-1].close()

    trajectory = await episode(Acting([bash("echo 1"), SUBMIT], renderer, lose, turn=1))

    assert trajectory.termination is Termination.SUBMITTED
    assert [step.observation for step in trajectory.steps] == ["1", "Submitted."]
    assert await watched.all_closed()


async def test_a_sandbox_that_cannot_start_is_an_environment_failure(episode, image):
    trajectory = await episode([SUBMIT], image=replace(image, ref="agentgym/no-such-image:none"))

    assert (trajectory.termination, trajectory.reward, trajectory.calls) == (Termination.ENVIRONMENT_FAILURE, None, ())


async def test_a_policy_that_fails_is_no_zero(episode, watched):
    trajectory = await episode([bash("echo 1")])

    assert (trajectory.termination, trajectory.reward) == (Termination.POLICY_FAILURE, None)
    assert "is over after 1 turns" in trajectory.error
    assert len(trajectory.steps) == 1
    assert await watched.all_closed()


async def test_a_policy_whose_own_time_out_passed_is_not_an_episode_out_of_time(episode, renderer):
    async def give_up():
        raise TimeoutError("no answer from the server")

    trajectory = await episode(Acting([SUBMIT], renderer, give_up, turn=1))

    assert trajectory.termination is Termination.POLICY_FAILURE
    assert "no answer from the server" in trajectory.error


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"logprobs": np.zeros(1, np.float32)}, "1 logprobs for"),
        ({"versions": (VersionSpan(0, 1, 3),)}, "do not cover"),
        ({"token_ids": np.zeros(0, np.int32)}, "logprobs for 0 tokens"),
    ],
)
async def test_an_answer_that_breaks_the_record_is_refused(episode, renderer, change, says):
    class Broken(ScriptedPolicy):
        async def generate(self, *prompt, **options):
            return replace(await super().generate(*prompt, **options), **change)

    trajectory = await episode(Broken([bash("ls"), SUBMIT], renderer))

    assert trajectory.termination is Termination.POLICY_FAILURE
    assert says in trajectory.error
    assert trajectory.calls == ()


async def test_a_generation_cut_by_the_token_limit_goes_on_after_the_template_closed_it(episode, renderer):
    class Cut(ScriptedPolicy):
        async def generate(self, *prompt, **options):
            whole = await super().generate(*prompt, **options)
            if self._played[options["episode_id"]] > 1:
                return whole
            part = whole.token_ids[:-4]
            return Generation(part, whole.logprobs[:-4], (VersionSpan(0, 0, len(part)),), FinishReason.LENGTH)

    trajectory = await episode(Cut([bash("ls"), SUBMIT], renderer))

    cut, after = trajectory.calls
    assert "token limit" in trajectory.steps[0].observation
    assert trajectory.termination is Termination.SUBMITTED
    edge = len(cut.prompt_token_ids) + len(cut.generation_token_ids)
    assert after.prompt_token_ids[edge] == renderer.get_stop_token_ids()[0]
    (sequence,) = sequences(trajectory)
    assert sequence.action_mask.sum() == len(cut.generation_token_ids) + len(after.generation_token_ids)


async def test_a_summary_is_a_recorded_call_without_a_step(episode):
    turns = [bash("echo 1"), bash("seq 1 800"), Turn("I looked at the numbers."), SUBMIT]

    trajectory = await episode(turns, profile(context={"kind": "summarise", "at_tokens": 1600}))

    assert trajectory.termination is Termination.SUBMITTED
    assert [step.call_index for step in trajectory.steps] == [0, 1, 3]
    append, compacted = ContextEvent.APPEND, ContextEvent.COMPACTED
    assert [call.context_event for call in trajectory.calls] == [append, append, append, compacted]
    assert len(sequences(trajectory)) == 2


async def test_cancelled_closes_the_sandbox_and_hands_over_what_happened(episode, watched, renderer):
    thinking, partial = asyncio.Event(), []

    async def think():
        thinking.set()
        await asyncio.sleep(60)

    policy = Acting([bash("echo 1"), SUBMIT], renderer, think, turn=2)
    running = asyncio.create_task(episode(policy, on_cancel=partial.append))
    await thinking.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    (trajectory,) = partial
    assert (trajectory.termination, trajectory.reward, len(trajectory.steps)) == (Termination.CANCELLED, None, 1)
    assert await watched.all_closed()
