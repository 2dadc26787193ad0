"""What a hostile or careless command cannot do: outlive its timeout, hang a call, or end the sandbox; and how one ends."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.sandbox.local import describe_enforcement
from agentgym.sandbox.protocol import Sandbox, SandboxBackend, SandboxError, SandboxGone

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALIVE = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep {}' | wc -l"


async def test_a_timeout_kills_all_the_command_started_inside_the_sandbox(sandbox: Sandbox):
    command = "echo begun; sleep 1001 & setsid sleep 1002 & (setsid sh -c 'sleep 1003 & sleep 1004') & sleep 1005"
    result = await sandbox.exec(command, timeout=0.5)
    assert (result.exit_code, result.timed_out, result.output) == (None, True, b"begun\n")
    assert result.duration < 5
    assert (await sandbox.exec(ALIVE.format("100[1-5]"))).text.strip() == "0"


async def test_a_timeout_spares_what_earlier_calls_left_running(sandbox: Sandbox):
    await sandbox.exec("sleep 1000 & echo $! > /tmp/pid")
    assert (await sandbox.exec("sleep 1000", timeout=0.3)).timed_out
    assert (await sandbox.exec("kill -0 $(cat /tmp/pid)")).exit_code == 0


async def test_a_command_that_ignores_term_is_killed(sandbox: Sandbox):
    result = await sandbox.exec("trap '' TERM INT HUP; echo deaf; while :; do sleep 0.1; done", timeout=0.5)
    assert (result.timed_out, result.output) == (True, b"deaf\n")
    assert result.duration < 8


async def test_a_cancelled_call_leaves_nothing_running(sandbox: Sandbox):
    task = asyncio.create_task(sandbox.exec("sleep 1234"))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await sandbox.exec(ALIVE.format("123[4]"))).text.strip() == "0"


@pytest.mark.parametrize("command", ["kill -9 $PPID; sleep 0.2; echo x", "kill -9 -1", "kill -STOP $PPID; exit 3"])
async def test_a_command_may_kill_our_shell_and_the_sandbox_goes_on(fresh: Sandbox, command: str):
    await fresh.exec("cd /tmp; export KEPT=1", stateful=True)
    result = await fresh.exec(command, timeout=3)
    assert result.reopened or result.timed_out
    after = await fresh.exec("pwd; echo $KEPT", stateful=True)
    assert after.output == b"/tmp\n1\n"


@pytest.mark.parametrize("signal", ["KILL", "TERM", "INT", "HUP", "USR1"])
async def test_pid_1_does_not_die_of_a_signal_from_inside(fresh: Sandbox, signal: str):
    await fresh.exec(f"kill -{signal} 1")
    await asyncio.sleep(0.2)
    assert (await fresh.exec("echo alive")).output == b"alive\n"


async def test_a_fork_bomb_is_ended_and_the_sandbox_lives(fresh: Sandbox):
    result = await fresh.exec("bomb() { bomb | bomb & }; bomb; sleep 30", timeout=2, output_limit=100)
    assert result.timed_out or result.exit_code
    after = await fresh.exec("echo alive", timeout=20)
    assert after.output == b"alive\n"


async def test_a_fork_bomb_left_in_the_background_ends_and_the_sandbox_goes_on(fresh: Sandbox):
    """Whether a call had to end it or it died of its own failing forks, it is gone after a few calls."""
    await fresh.exec("bomb() { bomb | bomb & }; bomb", output_limit=100)
    for _ in range(10):
        await asyncio.sleep(0.5)
        await fresh.exec("echo working | cat", timeout=20, output_limit=100)
        counted = await fresh.exec("set -- /proc/[0-9]*; echo $#")
        if counted.output.strip().isdigit() and int(counted.output) < 30:
            break
    else:
        pytest.fail("the bomb is still there after ten calls")
    assert (await fresh.exec("echo alive | cat")).output == b"alive\n"


async def test_a_fork_bomb_that_never_ends_is_ended_and_the_sandbox_goes_on(fresh: Sandbox):
    """It starts another as soon as one dies, so it takes every slot that somebody makes for a rescue."""
    result = await fresh.exec("bomb() { while :; do bomb & done; }; bomb 2>/dev/null", timeout=3, output_limit=100)
    assert result.timed_out or result.exit_code
    for _ in range(3):
        after = await fresh.exec("echo alive | cat; set -- /proc/[0-9]*; echo $#", timeout=30)
        assert after.text.startswith("alive\n")
    assert int(after.text.split()[1]) < 30


async def test_a_memory_hog_is_killed_and_reported(fresh: Sandbox):
    result = await fresh.exec("python3 -c 'x = bytearray(1 << 30)'; echo $?", timeout=30)
    assert "137" in result.text
    assert result.oom_killed
    after = await fresh.exec("echo alive")
    assert (after.output, after.oom_killed) == (b"alive\n", False)


CROWD = """python3 -c '
import os
while True:
    try:
        if os.fork() == 0:
            kept = os.urandom(1 << 20)
            while True:
                os.fork()
    except (OSError, MemoryError):
        pass
'; sleep 1000"""
"""It cannot die out: what it began with is the smallest of it, so the kernel takes that last."""


async def test_a_crowd_that_fights_for_memory_is_ended_before_its_time(start, backend: SandboxBackend):
    if backend.name == "kubernetes":
        pytest.skip("what the memory limit of a pod kills is counted on its node, out of our sight")
    if backend.name == "local" and "control group" not in describe_enforcement()["memory"]:
        pytest.skip("without control groups the memory limit is each process's own")
    sandbox = await start(memory_mb=100, pids=300)
    result = await sandbox.exec(CROWD, timeout=200, output_limit=100)
    assert not result.timed_out
    assert result.duration < 100
    assert (await sandbox.exec("echo alive")).output == b"alive\n"


async def test_orphans_are_reaped(start):
    sandbox = await start(pids=64)
    for _ in range(8):
        await sandbox.exec("for i in $(seq 20); do (sleep 0.01 &) ; done; sleep 0.1")
    assert (await sandbox.exec("echo ok")).output == b"ok\n"


# -- the end ------------------------------------------------------------------------------------------------------------


async def test_close_twice_and_then_calls_fail_by_type(fresh: Sandbox):
    await fresh.close()
    await fresh.close()
    with pytest.raises(SandboxGone):
        await fresh.exec("true")


async def test_close_ends_a_call_that_is_on_its_way(fresh: Sandbox):
    task = asyncio.create_task(fresh.exec("sleep 100"))
    await asyncio.sleep(0.3)
    await fresh.close()
    with pytest.raises(SandboxError):
        async with asyncio.timeout(10):
            await task


async def test_close_completes_although_its_task_is_cancelled(fresh: Sandbox):
    task = asyncio.create_task(fresh.close())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await fresh.close()
    with pytest.raises(SandboxGone):
        await fresh.exec("true")


async def test_a_sandbox_ends_itself_after_its_lifetime(start):
    sandbox = await start(lifetime_s=2)
    await asyncio.sleep(4)
    with pytest.raises(SandboxGone):
        await sandbox.exec("true")
