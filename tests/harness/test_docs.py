"""docs/harness.md tells the truth: its profile is the defaults, its example runs, its tables are complete."""

import re
import tomllib
from pathlib import Path

import pytest

from agentgym.store.records import Termination
from harness.profile import Profile, shipped_profiles

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "harness.md").read_text()


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
    example = next(block for block in blocks("python") if "run_episode" in block)
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    namespace: dict = {}
    exec(compile(example.replace("asyncio.run(main())", ""), "docs/harness.md", "exec"), namespace)

    await namespace["main"]()

    assert capsys.readouterr().out.strip() == "submitted 1.0"
