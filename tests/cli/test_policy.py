"""What `--model` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.cli.policy import version_of
from agentgym.errors import InputError


def test_a_checkpoint_of_the_trainer_says_its_version(tmp_path: Path) -> None:
    policy = tmp_path / "step-000003" / "policy"
    policy.mkdir(parents=True)
    assert version_of(policy) == 0
    (policy.parent / "state.json").write_text('{"step": 3, "version": 12}')
    assert version_of(policy) == 12
    (policy.parent / "state.json").write_text("[]")
    with pytest.raises(InputError, match="--policy-version"):
        version_of(policy)
