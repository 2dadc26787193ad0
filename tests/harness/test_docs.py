"""docs/harness.md tells the truth: its profile is the defaults, its example runs, its tables are complete."""

import re
import tomllib

import pytest
from documents import ROOT, run_block

from agentgym.store.records import Termination
from harness.profile import Profile, shipped_profiles
from harness.tools import ToolContext

TEXT = (ROOT / "docs" / "harness.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_profile_shows_every_key_with_its_default():
    (toml,) = blocks("toml")
    shown = tomllib.loads(toml)

    profile = Profile.model_validate(shown)

    minimal = Profile.model_validate({key: shown[key] for key in ("name", "tools", "prompts")})
    assert profile == minimal
    keys = {key for section in minimal.model_dump().values() if isinstance(section, dict) for key in section}
    assert {key for key in keys if key not in toml} <= {"summary_request"}


def test_every_profile_and_termination_is_in_the_tables():
    assert all(f"`{name}`" in TEXT for name in shipped_profiles())
    assert all(reason.value in TEXT for reason in Termination)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_example_runs(monkeypatch, capsys, backend):
    monkeypatch.chdir(ROOT)

    namespace = await run_block("harness.md", 0, **{"asyncio.run(main())": ""})
    await namespace["main"]()

    assert capsys.readouterr().out.strip() == "submitted 1.0"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_tool_of_your_own_acts(backend, image, task):
    namespace = await run_block("harness.md", 1)
    sandbox = await backend.start(image, task.limits)

    observation = await namespace["TOUCH"].run(ToolContext(sandbox, task.workdir), {"path": "a b"})

    assert (observation.text, observation.exit_code) == ("Made a b.", 0)
    assert (await sandbox.exec("cat 'a b'", cwd=task.workdir)).exit_code == 0
    await sandbox.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_sandbox_is_used_from_python_as_its_page_says(monkeypatch, capsys, backend):
    monkeypatch.chdir(ROOT)

    await (await run_block("sandboxes.md", 0))["main"]()

    assert capsys.readouterr().out.split() == ["0", "1"]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_task_is_validated_from_python_as_its_page_says(monkeypatch, capsys, tmp_path, backend):
    monkeypatch.chdir(ROOT)

    once = {"validate(task, backend)": "validate(task, backend, repeats=1)", "runs/agentgym.db": str(tmp_path / "s.db")}
    found = await run_block("tasks.md", 0, **once)
    await found["backend"].close()

    assert capsys.readouterr().out.strip() == "valid"
