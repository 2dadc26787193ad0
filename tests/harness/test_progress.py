"""A trajectory that solved its task and then broke it again is diagnosed so."""

from dataclasses import replace

import pytest

from agentgym.store.states import WorkspaceStates
from harness.episode import run_episode
from harness.policies.scripted import SUBMIT, ScriptedPolicy, Turn, gold_script
from harness.profile import load_profile
from harness.progress import marked, progress

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_solved_and_broken_again(task, image, backend, renderer):
    solve = gold_script(task)[:-1]
    undo = Turn(tool="bash", arguments={"command": "git checkout -q -f . && ls"})
    script = [Turn("Let me see."), Turn(tool="bash", arguments={"command": "ls"}), *solve, undo, SUBMIT]
    profile = load_profile("default")
    trajectory = await run_episode(
        task, policy=ScriptedPolicy(script, renderer), renderer=renderer, profile=profile, backend=backend, image=image
    )

    found = await progress(trajectory, task, backend, profile=profile)

    assert trajectory.reward == 0.0
    assert found.solved_at == 1 + len(solve)
    assert found.broken_at == found.solved_at + 1
    assert [state.step for state in found.states] == list(range(1, len(script)))
    assert found.last_failed == len(script) - 1
    changed = {state.step: state.diff for state in found.states if state.diff}
    assert set(changed) >= {found.solved_at, found.broken_at}
    assert all(diff.startswith("diff --git ") for diff in changed.values())
    undone = [line for line in changed[found.broken_at].splitlines() if line.startswith("+") and "+++" not in line]
    assert undone
    await a_failed_trajectory_is_marked(trajectory, found)


async def a_failed_trajectory_is_marked(trajectory, found: WorkspaceStates) -> None:
    """Given episodes of the same steps, when they are marked, then only the failed one is looked at, and says what was found."""
    looked = []

    async def look(trajectory, task, backend, *, profile) -> WorkspaceStates:
        looked.append(trajectory.reward)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.progress.progress", look)
        for reward, marks in (
            (0.0, {"solved_at": found.solved_at, "broken_at": found.broken_at}),
            (1.0, {}),
            (None, {}),
        ):

            async def episode(task, reward=reward, **_):
                return replace(trajectory, reward=reward)

            seen = await marked(episode)(None, backend=None, profile=None)
            assert {name: seen.metadata[name] for name in ("solved_at", "broken_at") if name in seen.metadata} == marks
    assert looked == [0.0]
