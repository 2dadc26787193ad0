"""Profiles: what ships loads, what is wrong is named, and the digest is of all that shapes a rollout."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.config import ConfigError
from agentgym.store.records import Termination
from harness.budget import Budget
from harness.profile import Limits, Profile, load_profile, shipped_profiles


@pytest.mark.parametrize("name", shipped_profiles())
def test_shipped_profiles_load_and_fill_their_templates(name):
    profile = load_profile(name)

    system, user = profile.first_messages(instruction="Mend $HOME and $$x.", workdir="/testbed", task_id="t")

    assert profile.name == name
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Mend $HOME and $$x." in user["content"]
    assert "$workdir" not in system["content"] + user["content"]
    json.dumps(profile.document())


def test_the_digest_changes_with_anything_a_policy_can_notice():
    tiny = load_profile("tiny")
    changed = [
        tiny.model_copy(update={"tools": ["bash"]}),
        tiny.model_copy(update={"limits": Limits(max_turns=9)}),
        tiny.model_copy(update={"prompts": tiny.prompts.model_copy(update={"system": "x"})}),
    ]

    assert len({p.digest for p in [tiny, *changed]}) == 4
    assert load_profile("tiny").digest == tiny.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "x"\ntools = ["bash"]', "prompts"),
        ('name = "x"\ntools = ["bsh"]\n[prompts]\nsystem = ""', "no such tools: ['bsh']"),
        ('name = "x"\ntools = ["search", "r2e_search"]\n[prompts]\nsystem = ""', "look the same to a policy"),
        ('name = "x"\ntools = ["bash", "bash"]\n[prompts]\nsystem = ""', "named twice"),
        ('name = "x"\ntools = ["bash"]\n[prompts]\nsystem = "$home"', "unknown fields ['home']"),
        ('name = "x"\ntools = ["bash"]\n[prompts]\nsystem = "costs $"', "write $$"),
        ('name = "x"\ntools = ["bash"]\n[prompts]\nsystem = ""\n[limits]\nmax_turn = 3', 'did you mean "max_turns"?'),
    ],
)
def test_a_profile_that_cannot_be_used_says_why(tmp_path, text, says):
    file = tmp_path / "mine.toml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_profile(file)
    assert says in str(caught.value)


def test_an_unknown_name_lists_what_ships():
    with pytest.raises(ConfigError, match="shipped are bash-only, default"):
        load_profile("defalt")


@given(
    st.builds(
        Limits, max_turns=st.integers(1, 9), max_tokens_per_turn=st.integers(1, 50), max_tokens=st.integers(1, 200)
    ),
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=30),
)
def test_a_call_never_gets_more_tokens_than_any_budget_has(limits, context_length, turns):
    budget, prompt = Budget(limits, context_length, wall_time_s=1e6), 10
    for generated, observed in turns:
        ended = budget.exhausted(prompt)
        if ended:
            assert ended in (Termination.MAX_STEPS, Termination.MAX_TOKENS, Termination.CONTEXT_EXHAUSTED)
            return
        allowed = budget.call_tokens(prompt)
        assert 1 <= allowed <= limits.max_tokens_per_turn
        assert prompt + allowed <= context_length
        assert budget.tokens + allowed <= limits.max_tokens
        budget.spend(min(generated, allowed))
        prompt += min(generated, allowed) + observed


def test_time_is_a_budget():
    assert Budget(Limits(), 100, wall_time_s=0).exhausted(10) is Termination.TIME_LIMIT


def test_profile_is_immutable():
    with pytest.raises(ValueError, match="frozen"):
        Profile.__setattr__(load_profile("tiny"), "name", "x")
