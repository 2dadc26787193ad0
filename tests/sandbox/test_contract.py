"""What every backend promises about running commands (`agentgym/sandbox/protocol.py`), on real engines."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentgym.sandbox.protocol import Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

# -- results ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 7", 7),
        ("no-such-program", 127),
        ("/testbed", 126),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("sh -c 'kill -INT $$'", 130),
        ("if", 2),
    ],
)
async def test_the_exit_code_is_the_commands_own_and_signals_are_128_plus_n(sandbox: Sandbox, command: str, code: int):
    result = await sandbox.exec(command)
    assert (result.exit_code, result.timed_out, result.reopened) == (code, False, False)


async def test_stdout_and_stderr_come_interleaved(sandbox: Sandbox):
    assert (await sandbox.exec("echo a; echo b >&2; echo c")).output == b"a\nb\nc\n"


async def test_an_interrupt_reaches_the_command(sandbox: Sandbox):
    """A shell's background children ignore SIGINT; commands must not be started like that."""
    result = await sandbox.exec("trap 'echo interrupted; exit 3' INT; kill -INT $$; echo survived")
    assert (result.exit_code, result.output) == (3, b"interrupted\n")


async def test_commands_run_in_the_workdir_as_an_unprivileged_user_who_owns_it(sandbox: Sandbox):
    result = await sandbox.exec("pwd; id -u; touch new && rm new && cat hello.txt")
    assert result.text.split() == ["/testbed", "1000", "hello"]


async def test_bash_syntax_works(sandbox: Sandbox):
    assert (await sandbox.exec("a=(x y); [[ ${a[1]} == y ]] && echo <(true) | wc -l")).output == b"1\n"


# -- state --------------------------------------------------------------------------------------------------------------


async def test_stateful_calls_carry_directory_and_exports(sandbox: Sandbox):
    await sandbox.exec(
        "mkdir -p '/tmp/o d' && cd '/tmp/o d'; export A=\"it's\" B='two\nlines' C='ünï'; D=no; exit 3", stateful=True
    )
    result = await sandbox.exec('pwd; echo "$A|$B|$C|$D"', stateful=True)
    assert result.text == "/tmp/o d\nit's|two\nlines|ünï|\n"


async def test_other_calls_neither_see_nor_change_that_state(sandbox: Sandbox):
    await sandbox.exec("cd /tmp; export A=1", stateful=True)
    assert (await sandbox.exec('pwd; echo "[$A]"; cd /; export A=2')).text == "/testbed\n[]\n"
    assert (await sandbox.exec('pwd; echo "[$A]"', stateful=True)).text == "/tmp\n[1]\n"


async def test_state_survives_a_failed_a_killed_and_a_traced_call(sandbox: Sandbox):
    await sandbox.exec("cd /tmp; export A=1", stateful=True)
    await sandbox.exec("set -euo pipefail; false; echo unreachable", stateful=True)
    await sandbox.exec("cd /; kill -KILL $$", stateful=True)
    traced = await sandbox.exec("set -x; export B=2", stateful=True)
    assert traced.text == "++ export B=2\n++ B=2\n"
    assert (await sandbox.exec('pwd; echo "$A$B"', stateful=True)).text == "/tmp\n12\n"


async def test_a_vanished_directory_falls_back_to_the_workdir_and_says_so(sandbox: Sandbox):
    await sandbox.exec("mkdir /tmp/gone; cd /tmp/gone", stateful=True)
    await sandbox.exec("rmdir /tmp/gone")
    result = await sandbox.exec("pwd", stateful=True)
    assert "/tmp/gone" in result.text.splitlines()[0]
    assert result.text.splitlines()[-1] == "/testbed"


async def test_cwd_and_env_arguments_hold_for_one_call(sandbox: Sandbox):
    result = await sandbox.exec('pwd; echo "$V"', cwd="/tmp", env={"V": "a'b\nc"})
    assert result.text == "/tmp\na'b\nc\n"
    assert (await sandbox.exec('pwd; echo "$V"')).text == "/testbed\n\n"


async def test_concurrent_stateful_calls_are_serialised(sandbox: Sandbox):
    await sandbox.exec("export N=0", stateful=True)
    await asyncio.gather(*(sandbox.exec("n=$N; sleep 0.05; export N=$((n + 1))", stateful=True) for _ in range(5)))
    assert (await sandbox.exec("echo $N", stateful=True)).text == "5\n"


# -- output -------------------------------------------------------------------------------------------------------------


async def test_100_mb_of_output_keep_head_and_tail_and_do_not_block_the_producer(sandbox: Sandbox):
    result = await sandbox.exec(
        "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last; echo done > /tmp/done",
        output_limit=1000,
    )
    assert result.exit_code == 0
    assert len(result.output) == 1000
    assert result.omitted_bytes == len("first\n") + 100_000_000 + len("\nlast\n") - 1000
    assert result.output.startswith(b"first\nx")
    assert result.output.endswith(b"x\nlast\n")
    assert f"[... {result.omitted_bytes} bytes omitted ...]" in result.text
    assert await sandbox.read_file("/tmp/done") == b"done\n"


async def test_an_endless_stream_ends_with_its_timeout(sandbox: Sandbox):
    result = await sandbox.exec("yes", timeout=1, output_limit=100)
    assert (result.exit_code, result.timed_out, result.output[:4]) == (None, True, b"y\ny\n")
    assert (await sandbox.exec("echo ok")).output == b"ok\n"


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 9])
async def test_the_cap_is_exact(sandbox: Sandbox, limit: int):
    result = await sandbox.exec("printf 12345678", output_limit=limit)
    kept = b"12345678" if limit >= 8 else b"12345678"[: (limit + 1) // 2] + b"12345678"[8 - limit // 2 :]
    assert (result.output, result.omitted_bytes) == (kept, max(0, 8 - limit))


@pytest.mark.parametrize(
    "data",
    [
        b"no newline",
        b"",
        b"\0",
        b"\0\0\xff\xfe\x80",
        bytes(range(256)),
        b"\x1b[31mred\x1b[0m\r50%\r100%\n",
        b"\xc3",
        b"\n" * 5,
    ],
)
async def test_any_bytes_come_out_as_they_are(sandbox: Sandbox, data: bytes):
    escaped = "".join(f"\\{byte:03o}" for byte in data)
    assert (await sandbox.exec(f"printf '{escaped}'")).output == data


async def test_output_that_looks_like_our_own_marks_is_output(sandbox: Sandbox):
    fake = "printf '\\000%032d E 0 0 0\\n' 7"
    result = await sandbox.exec(f"{fake}; exit 5")
    assert (result.exit_code, result.output) == (5, b"\0" + b"0" * 31 + b"7 E 0 0 0\n")


# -- stdin --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cat", "read x", "bash", "python3 -c 'input()'", "git log -p", "more hello.txt"])
async def test_whatever_waits_for_a_person_ends_at_once(sandbox: Sandbox, command: str):
    assert not (await sandbox.exec(command, timeout=10)).timed_out


async def test_stdin_given_is_what_the_command_reads(sandbox: Sandbox):
    data = bytes(range(256)) * 8000 + b"\\0\\n%s' end without newline"
    assert (await sandbox.exec("cat", stdin=data, output_limit=3_000_000)).output == data


async def test_stdin_nobody_reads_does_not_hang(sandbox: Sandbox):
    result = await sandbox.exec("exit 4", stdin=b"x" * 1_000_000)
    assert result.exit_code == 4


async def test_a_command_longer_than_any_argument_runs(sandbox: Sandbox):
    result = await sandbox.exec("x='" + "a b" * 200_000 + "'; echo ${#x} $#")
    assert result.output == b"600000 0\n"


async def test_a_command_no_shell_can_be_given_is_a_result(sandbox: Sandbox):
    assert (await sandbox.exec("echo \0")).exit_code == 126
    assert (await sandbox.exec("#" * 2_000_000)).exit_code == 126


# -- background ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["sleep 1000 &", "setsid sleep 1000 &", "nohup sleep 1000 & disown", "(sleep 1000; echo x) &"]
)
async def test_a_background_child_that_holds_stdout_does_not_hang_the_call(sandbox: Sandbox, command: str):
    began = time.monotonic()
    result = await sandbox.exec(f"echo a; {command} echo b" if command.endswith("&") else f"echo a; {command}; echo b")
    assert (result.exit_code, result.output) == (0, b"a\nb\n")
    assert time.monotonic() - began < 5


async def test_it_goes_on_and_its_late_output_reaches_no_other_call(sandbox: Sandbox):
    await sandbox.exec("for i in $(seq 200); do echo noise; sleep 0.01; done & echo $! > /tmp/pid")
    for _ in range(20):
        assert (await sandbox.exec("echo clean; sleep 0.02")).output == b"clean\n"
    assert (await sandbox.exec("kill -0 $(cat /tmp/pid)")).exit_code == 0


async def test_many_background_children_leave_the_sandbox_usable(sandbox: Sandbox):
    for _ in range(30):
        assert (await sandbox.exec("sleep 0.2 &")).exit_code == 0
    assert (await sandbox.exec("echo ok")).output == b"ok\n"


# -- parallel -----------------------------------------------------------------------------------------------------------


async def test_eight_calls_run_in_parallel(sandbox: Sandbox):
    await asyncio.gather(*(sandbox.exec("true") for _ in range(8)))
    began = time.monotonic()
    results = await asyncio.gather(*(sandbox.exec(f"sleep 0.7; echo {i}") for i in range(8)))
    assert [r.text for r in results] == [f"{i}\n" for i in range(8)]
    assert time.monotonic() - began < 3
