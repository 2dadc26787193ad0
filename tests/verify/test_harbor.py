"""A plain Harbor directory, unchanged: its user, its script, its reward file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.tasks.validation import validate
from agentgym.verify import Grade, Patch, grade

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILES = {
    "task.toml": 'version = "1.0"\n[metadata]\ndifficulty = "easy"\n[verifier]\ntimeout_sec = 60.0\n'
    '[environment]\nmemory = "1G"\n',
    "instruction.md": "Write hello to hello.txt.\n",
    "environment/Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/bash\nprintf hello > /app/hello.txt\n",
    "tests/test.sh": '#!/bin/bash\nreward=0\n[ "$(cat /app/hello.txt)" = hello ] && reward=1\n'
    "id -u; grep CapEff /proc/self/status; touch /root-can-write-here && echo writes as root\n"
    "echo $reward > /logs/verifier/reward.txt\n",
}
HELLO = (
    b"diff --git a/hello.txt b/hello.txt\nnew file mode 100644\n--- /dev/null\n+++ b/hello.txt\n@@ -0,0 +1 @@\n+hello\n"
)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Task:
    root = tmp_path_factory.mktemp("harbor") / "write-hello"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return load_task(root)


async def ended(plain: Task, backend: SandboxBackend, script: str, tmp_path: Path, **changes: object) -> Grade:
    """The grade where `script` is the task's test.sh."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test.sh").write_text(script)
    return await grade(replace(plain, root=tmp_path, **changes), Patch(HELLO), backend)


async def test_the_oracle_is_rewarded_and_nothing_is_not(plain: Task, backend: SandboxBackend) -> None:
    report = await validate(plain, backend, repeats=1)

    assert (report.status, report.reason) == ("valid", "")
    assert (report.gold_rewards, report.empty_rewards, report.judge) == ([1.0], [0.0], "reward file")


async def test_its_scripts_run_as_its_own_user_and_without_capabilities(plain: Task, backend: SandboxBackend) -> None:
    if backend.name != "docker":
        pytest.skip("only Docker images keep their own user")

    result = await grade(plain, Patch(HELLO), backend)

    assert result.reward == 1.0
    assert result.log.splitlines()[:3] == ["0", "CapEff:\t0000000000000000", "writes as root"]


async def test_a_reward_file_of_several_criteria_is_the_vector(
    plain: Task, backend: SandboxBackend, tmp_path: Path
) -> None:
    script = 'echo \'{"correct": 1, "style": 0.5}\' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt\n'

    result = await ended(plain, backend, script, tmp_path)

    assert (result.reward, result.vector) == (0.0, {"correct": 1.0, "style": 0.5})


async def test_a_fractional_reward_counts_only_where_the_task_asks_for_it(
    plain: Task, backend: SandboxBackend, tmp_path: Path
) -> None:
    script = "echo 0.25 > /logs/verifier/reward.txt\n"

    strict = await ended(plain, backend, script, tmp_path)
    loose = await grade(replace(plain, root=tmp_path, reward="fraction"), Patch(HELLO), backend)

    assert (strict.reward, loose.reward) == (0.0, 0.25)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "yes",
        "NaN",
        '{"reward": "1"}',
        "[1]",
        '{"a": 1e999}',
        json.dumps({}),
        '{"reward": ' + "9" * 400 + "}",
        "[" * 50_000,
    ],
)
async def test_an_unreadable_reward_is_no_verdict(
    plain: Task, backend: SandboxBackend, tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgym.verify.grading.ATTEMPTS", 1)

    result = await ended(plain, backend, f"printf '%s' '{content}' > /logs/verifier/reward.json\n", tmp_path)

    assert result.reward is None
    assert "no readable reward file" in str(result.error)


async def test_a_script_that_hangs_is_no_verdict_and_is_tried_again(
    plain: Task, backend: SandboxBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgym.verify.grading.BACKOFF_S", 0.01)
    started = []
    start = backend.start

    async def counted(*arguments: object) -> object:
        started.append(arguments)
        return await start(*arguments)

    monkeypatch.setattr(backend, "start", counted)

    result = await ended(plain, backend, "sleep 60\n", tmp_path, verifier_timeout_s=1.0)

    assert result.reward is None
    assert "did not end within 1 s" in str(result.error)
    assert len(started) == 3
