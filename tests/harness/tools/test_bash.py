"""`bash` in a real sandbox."""

import time

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_directory_and_exports_are_kept_between_calls(workspace):
    await workspace.call("bash", command="mkdir -p deep/er && cd deep/er && export COLOUR=blue")

    seen = await workspace.call("bash", command='echo "$COLOUR $PWD"')

    assert seen.text == f"blue {workspace.context.workdir}/deep/er"
    assert (seen.exit_code, seen.valid, seen.truncated) == (0, True, False)


async def test_failure_and_silence_are_said(workspace):
    assert (await workspace.call("bash", command="true")).text == "(no output)"
    failed = await workspace.call("bash", command="echo no >&2; (exit 7)")
    assert (failed.text, failed.exit_code) == ("no\n[exit code 7]", 7)


async def test_a_hang_is_killed_inside_and_told_apart_from_a_background_job(workspace):
    started = time.monotonic()
    hung = await workspace.call("bash", command="sleep 4321 & sleep 4322", timeout=1)

    assert hung.exit_code is None
    assert "killed after 1 s together with all it started" in hung.text
    assert time.monotonic() - started < 10
    assert "432" not in await workspace.sh("ps -eo args 2>/dev/null | grep '[s]leep 432' || true")

    background = await workspace.call("bash", command="sleep 4323 & echo started")
    assert (background.text, background.exit_code) == ("started", 0)
    await workspace.sh("pkill -f 'sleep 4323' || true")


async def test_nothing_waits_for_a_key(workspace):
    asked = await workspace.call("bash", command="read answer; echo got:$answer", timeout=5)
    assert "got:" in asked.text

    await workspace.call(
        "bash", command="git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m"
    )
    log = await workspace.call("bash", command="git log", timeout=5)
    assert log.exit_code == 0


async def test_long_output_keeps_head_and_tail_and_says_how_much_is_missing(workspace):
    seen = await workspace.call("bash", command="seq 1 200000")

    assert seen.truncated
    assert seen.text.startswith("1\n2\n")
    assert seen.text.endswith("\n200000")
    assert "characters left out here; send the output to a file" in seen.text
    assert len(seen.text) < workspace.context.max_chars + 300
    missing = int(seen.text.partition("[... about ")[2].split()[0])
    assert abs(missing + len(seen.text) - 1_288_895) < 1000


async def test_binary_output_is_text(workspace):
    seen = await workspace.call("bash", command="head -c 300 /dev/urandom; printf '\\0\\033[31mred\\033[0m'")

    assert seen.text.endswith("red")
    seen.text.encode()


async def test_time_outs_are_capped_by_the_profile_and_the_episode(workspace):
    workspace.context.deadline = time.monotonic() + 2

    seen = await workspace.call("bash", command="sleep 30", timeout=1000)

    assert seen.exit_code is None
    assert seen.text.startswith("[killed after")


async def test_the_finish_marker_ends_the_episode_only_alone_and_successful(workspace):
    workspace.context.finish_marker = "TASK_COMPLETE"

    assert (await workspace.call("bash", command="echo TASK_COMPLETE")).done
    assert not (await workspace.call("bash", command="echo TASK_COMPLETE; false")).done
    assert not (await workspace.call("bash", command="echo is it TASK_COMPLETE")).done
