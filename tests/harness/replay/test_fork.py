"""Prefix replay: the child begins with exactly what the parent saw, in the state the parent left, and holds its own part."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.records import ContextEvent, Termination
from agentgym.store.sequences import sequences
from agentgym.store.transfer import export
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy, gold_script
from harness.replay import ReplayDiverged, fork, reexecute, rerender, whole
from harness.replay.transcript import Transcriber

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]


@pytest.fixture
def roll(task, backend, renderer, profile):
    async def go_on(parent, step, *turns, **options):
        policy = ScriptedPolicy(turns, renderer, name="other")
        settings = {"policy": policy, "renderer": renderer, "profile": profile, "backend": backend}
        return await fork(parent, task, step=step, **settings, **options)

    return go_on


async def test_a_child_goes_on_from_the_parents_tokens_files_and_shell(
    play, bash, roll, task, profile, renderer, tmp_path
) -> None:
    parent = await play(
        bash("cd /tmp && export KEPT=yes && echo mine > /testbed/added.txt"), bash("echo second"), *EMPTY_SCRIPT
    )
    left = bash("echo $KEPT $PWD; cat /testbed/added.txt")
    [child, twin] = await roll(parent, 1, left, *EMPTY_SCRIPT, rollouts=2, run_id="forks")

    assert child.calls[0].prompt_token_ids.tolist() == parent.calls[1].prompt_token_ids.tolist()
    assert child.steps[0].observation == "yes /tmp\nmine"
    assert (child.parent_id, child.branch_step, child.group_id) == (parent.id, 1, twin.group_id)
    assert (len(child.calls), len(child.steps), child.run_id) == (2, 2, "forks")
    assert "added.txt" in child.patch  # the workspace is the whole episode's
    assert child.termination is Termination.SUBMITTED
    assert child.reward == 0.0

    [only] = sequences(child)  # the loss is over the suffix, with the prefix as context
    own = sum(len(call.generation_token_ids) for call in child.calls)
    assert only.action_count == own
    assert not only.action_mask[: len(parent.calls[1].prompt_token_ids)].any()

    with Store.open(tmp_path / "store.db") as store:
        for one in (parent, child, twin):
            store.add(one, profile.document())
        assert check_store(store).ok
        assert store.count(TrajectoryFilter(parent_id=parent.id)) == 2
        joined = whole(store.get(child.id), store)
        assert [step.observation for step in joined.steps[:1]] == [parent.steps[0].observation]
        assert [step.call_index for step in joined.steps] == [0, 1, 2]
        assert {call.context_event for call in joined.calls} == {ContextEvent.APPEND}
        np.testing.assert_array_equal(joined.calls[1].prompt_token_ids, child.calls[0].prompt_token_ids)

        words = Transcriber(store, lambda digest: task, lambda _: renderer)
        export(store, TrajectoryFilter(parent_id=parent.id, limit=1), "sft", tmp_path / "x.jsonl", transcribe=words)
        row = json.loads((tmp_path / "x.jsonl").read_text())
        weights = [message.get("weight", 1) for message in row["messages"] if message["role"] == "assistant"]
        assert weights == [0, 1, 1]  # what the parent said is its own row's to teach


async def test_the_prefix_is_run_once_and_the_other_children_start_from_its_snapshot(play, bash, roll, task) -> None:
    parent = await play(
        bash("date +%N > /tmp/when; echo 'x = 1' > added.py; cd /tmp; export KEPT='a b'; unset PYTHONUNBUFFERED"),
        *EMPTY_SCRIPT,
    )
    look = bash(f'echo "$KEPT $PWD ${{PYTHONUNBUFFERED-none}}"; cat when; cd {task.workdir}')
    children = await roll(parent, 1, look, *gold_script(task)[:-1], *EMPTY_SCRIPT, rollouts=3, concurrency=2)
    assert len({child.steps[0].observation for child in children}) == 1  # the very same moment
    assert children[2].steps[0].observation.startswith("a b /tmp none\n")
    assert {child.reward for child in children} == {1.0}
    assert len({child.patch for child in children}) == 1
    assert "added.py" in children[1].patch  # compared with the task's image, not with the snapshot


@pytest.mark.parametrize("left", ["sleep 300 > /dev/null 2>&1 &", "touch /dev/shm/x;"])
async def test_what_no_snapshot_holds_is_run_again_for_each_child(play, bash, roll, left) -> None:
    parent = await play(bash(f"date +%N > /tmp/when; {left} echo on"), *EMPTY_SCRIPT)
    look = bash("cat /tmp/when; ls /dev/shm; cat /proc/[0-9]*/comm | grep -x sleep")
    first, second = await roll(parent, 1, look, *EMPTY_SCRIPT, rollouts=2)
    assert first.steps[0].observation.split("\n")[0] != second.steps[0].observation.split("\n")[0]
    assert first.steps[0].observation.split("\n")[1:] == second.steps[0].observation.split("\n")[1:]
    assert first.steps[0].observation.split("\n")[1] in ("sleep", "x")


async def test_a_child_can_be_run_again_rendered_again_and_branched_again(
    play, bash, roll, task, backend, renderer, profile, tmp_path
) -> None:
    parent = await play(bash("echo one > /tmp/one"), bash("echo two"), *EMPTY_SCRIPT)
    [child] = await roll(parent, 1, bash("cat /tmp/one"), *EMPTY_SCRIPT)
    with Store.open(tmp_path / "store.db") as store:
        store.add(parent, profile.document())
        store.add(child)
        joined = whole(child, store)
        again = await reexecute(joined, task, backend, profile=profile)
        assert (again.identical, len(again.steps)) == (3, 3)
        assert rerender(joined, task, profile, renderer).differences == ()
        [grandchild] = await roll(child, 1, bash("cat /tmp/one /tmp/one"), *EMPTY_SCRIPT, joined=joined)
        assert grandchild.steps[0].observation == "one\none"
        assert (grandchild.parent_id, grandchild.branch_step) == (child.id, 1)
        assert grandchild.calls[0].prompt_token_ids.tolist() == child.calls[1].prompt_token_ids.tolist()
        store.add(grandchild)
        assert check_store(store).ok
        long = whole(grandchild, store)
        assert (len(long.steps), len(long.calls)) == (4, 4)
        assert rerender(long, task, profile, renderer).differences == ()
        store.add(replace(grandchild, parent_id="f" * 32, id="e" * 32))
        with pytest.raises(InputError, match="goes on from ffffffff, which is not in this store"):
            whole(store.get("e" * 32), store)
        for one, above in ("c", "d"), ("d", "c"):
            store.add(replace(child, id=one * 32, parent_id=above * 32))
        with pytest.raises(InputError, match="go round in a circle"):
            whole(store.get("c" * 32), store)


async def test_a_solution_may_begin_at_the_first_step(play, bash, roll, task, profile) -> None:
    parent = await play(bash("echo lost"), *EMPTY_SCRIPT)
    [child] = await roll(parent, 0, *gold_script(task, profile))
    assert child.calls[0].prompt_token_ids.tolist() == parent.calls[0].prompt_token_ids.tolist()
    assert child.reward == 1.0


async def test_budgets_and_loops_count_what_the_prefix_spent(play, bash, roll, profile) -> None:
    limits = profile.limits.model_copy(update={"max_turns": 3})
    short = profile.model_copy(update={"limits": limits})
    parent = await play(bash("echo a"), bash("echo b"), bash("echo c"), under=short)
    assert parent.termination is Termination.MAX_STEPS
    repeats = profile.stop.repeated_actions
    again = await play(*[bash("echo same")] * (repeats - 1), *EMPTY_SCRIPT)
    [child] = await roll(again, repeats - 1, bash("echo same"), *EMPTY_SCRIPT)
    assert child.termination is Termination.REPEATED_ACTIONS


async def test_an_episode_that_a_budget_cut_goes_on_behind_its_last_step(play, bash, roll, profile) -> None:
    limits = profile.limits.model_copy(update={"max_turns": 2})
    parent = await play(bash("echo a"), bash("echo b"), under=profile.model_copy(update={"limits": limits}))
    [child] = await roll(parent, 2, *EMPTY_SCRIPT)
    last = parent.calls[-1]
    context = [*last.prompt_token_ids.tolist(), *last.generation_token_ids.tolist()]
    assert child.calls[0].prompt_token_ids.tolist()[: len(context)] == context
    assert child.termination is Termination.SUBMITTED


async def test_a_prefix_that_does_not_come_back_is_not_gone_on_from(play, bash, roll) -> None:
    parent = await play(bash("echo $RANDOM-$RANDOM"), bash("echo b"), *EMPTY_SCRIPT)
    with pytest.raises(ReplayDiverged, match=r"step 0 \(bash\) came back different"):
        await roll(parent, 1, *EMPTY_SCRIPT, rollouts=2)


@pytest.mark.parametrize(("step", "fault"), [(4, "has 2 steps"), (2, "nothing goes on behind it")])
async def test_a_step_that_is_not_there_is_refused(play, bash, roll, step, fault) -> None:
    parent = await play(bash("echo a"), *EMPTY_SCRIPT)
    with pytest.raises(InputError, match=fault):
        await roll(parent, step, *EMPTY_SCRIPT)
