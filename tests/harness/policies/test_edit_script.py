"""The reference solution as edit calls: one replacement per changed place, unambiguous where the code is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.tasks import Task, load_task
from harness.policies.edit_script import changes, edit_script
from harness.policies.protocol import PolicyError
from harness.policies.scripted import SUBMIT
from harness.profile import StopRules, load_profile

TASK = load_task(Path(__file__).resolve().parents[3] / "environments" / "tutorial-duration")
PATCH = """diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -1,6 +1,6 @@
 def low(x):
-    return x + 1
+    return x - 1
 
 def high(x):
-    return x > 1
+    return x >= 1
 
@@ -20,2 +20,3 @@ def tail(x):
     y = x
+    y += 1
     return y
"""


def of(patch: str, instruction: str = "") -> Task:
    material = SimpleNamespace(gold_patch=lambda: patch.encode(), hidden_tests=TASK.material.hidden_tests)
    return replace(TASK, material=material, instruction=instruction)


def apply(script, text: str) -> str:
    for turn in script:
        if turn.tool == "edit":
            assert text.count(turn.arguments["old_str"]) == 1
            text = text.replace(turn.arguments["old_str"], turn.arguments["new_str"])
    return text


def test_each_run_of_changed_lines_is_one_replacement() -> None:
    one, two, three = changes(PATCH)
    assert (one.path, one.old, one.new) == ("m.py", ("    return x + 1",), ("    return x - 1",))
    assert (two.old, two.above) == (("    return x > 1",), ("", "def high(x):"))
    assert (three.old, three.new, three.above) == ((), ("    y += 1",), ("    y = x",))


def test_the_replacements_make_the_solution_and_the_end_is_a_submission() -> None:
    code = "def low(x):\n    return x + 1\n\ndef high(x):\n    return x > 1\n\n# ...\n    y = x\n    return y\n"
    script = edit_script(of(PATCH, code))
    assert script[-1] == SUBMIT
    wanted = "def low(x):\n    return x - 1\n\ndef high(x):\n    return x >= 1\n\n# ...\n    y = x\n    y += 1\n    return y\n"
    assert apply(script, code) == wanted


def test_lines_that_stand_twice_take_what_is_above_along() -> None:
    code = "def a(x):\n    return x\n\ndef b(x):\n    return x\n"
    patch = "--- a/m.py\n+++ b/m.py\n@@ -4,2 +4,2 @@\n def b(x):\n-    return x\n+    return -x\n"
    (turn, _) = edit_script(of(patch, code))
    assert turn.arguments["old_str"] == "def b(x):\n    return x"
    assert apply([turn], code).endswith("def b(x):\n    return -x\n")


def test_a_line_that_the_instruction_quotes_again_stands_once_in_the_code() -> None:
    shown = "In\n\n```python\ndef b(x):\n    return x\n```\n\nthis is wrong:\n\n```python\n    return x\n```\n"
    patch = "--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n def b(x):\n-    return x\n+    return -x\n"
    (turn, _) = edit_script(of(patch, shown))
    assert turn.arguments["old_str"] == "    return x"


def test_a_profile_that_ends_by_itself_needs_no_submission() -> None:
    tiny = load_profile("tiny")
    assert len(edit_script(of(PATCH), tiny)) == 4
    ending = tiny.model_copy(update={"stop": StopRules(tests_passed=True)})
    assert len(edit_script(of(PATCH), ending)) == 3


def test_a_profile_with_the_smaller_tool_plays_that_one() -> None:
    small = load_profile("tiny").model_copy(update={"tools": ["replace", "submit"]})
    script = edit_script(of(PATCH), small)
    assert {turn.tool for turn in script[:-1]} == {"replace"}
    assert set(script[0].arguments) == {"path", "old_str", "new_str"}
    with pytest.raises(PolicyError, match="no edit or replace tool"):
        edit_script(of(PATCH), small.model_copy(update={"tools": ["bash", "submit"]}))


@pytest.mark.parametrize("patch", ["", "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n"])
def test_more_than_changed_lines_is_refused(patch: str) -> None:
    with pytest.raises(PolicyError, match="more than changed lines"):
        edit_script(of(patch))
