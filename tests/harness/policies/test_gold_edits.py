"""A patch as edits: played by the real edit tool in a real sandbox it leaves what the patch leaves, or it is refused."""

from __future__ import annotations

import pytest

from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store.records import Termination
from agentgym.tasks import Task
from harness.episode import run_episode
from harness.policies.gold_edits import edits
from harness.policies.protocol import PolicyError
from harness.policies.scripted import ScriptedPolicy, gold_script
from harness.profile import load_profile
from harness.render import GuardedRenderer
from harness.tools import TOOLS, ToolContext

HEAD = "diff --git a/{0} b/{0}\nindex 1..2 100644\n--- a/{0}\n+++ b/{0}\n"
NEW = "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("grade_each_patch_once")
@pytest.mark.parametrize("name", ["editor", "r2e"])
async def test_gold_is_one_in_a_profile_of_its_tools(
    name: str, task: Task, backend: SandboxBackend, image: Image, renderer: GuardedRenderer
) -> None:
    profile = load_profile(name)
    policy = ScriptedPolicy(gold_script(task, profile, by="edit"), renderer)
    trajectory = await run_episode(
        task, policy=policy, renderer=renderer, profile=profile, backend=backend, image=image
    )
    assert (trajectory.termination, trajectory.reward) == (Termination.SUBMITTED, 1.0)
    assert {step.tool for step in trajectory.steps} <= {"edit", "submit", "file_editor", "finish"}


@pytest.mark.asyncio(loop_scope="session")
async def test_edits_leave_what_the_patch_leaves(backend: SandboxBackend, image: Image, task: Task) -> None:
    before = {"x.py": "one\ntwo\nthree\n", "dos.txt": "a\r\nb\r\nc\r\n", "end.txt": "first\nlast"}
    patch = (
        HEAD.format("x.py") + "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
        + HEAD.format("dos.txt") + "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n"
        + HEAD.format("end.txt")
        + "@@ -1,2 +1,2 @@\n first\n-last\n\\ No newline at end of file\n+last line\n\\ No newline at end of file\n"
        + NEW
    )  # fmt: skip
    after = {"x.py": "one\n2\n2.5\nthree\n", "dos.txt": "a\r\nB\r\nc\r\n", "end.txt": "first\nlast line", "n": "a\nb\n"}
    sandbox = await backend.start(image)
    try:
        for name, text in before.items():
            await sandbox.write_file(f"{task.workdir}/{name}", text.encode())
        context = ToolContext(sandbox, task.workdir)
        for call in edits(patch.encode()):
            seen = await TOOLS["edit"].run(context, call)
            assert seen.exit_code == 0, seen.text
        found = {name: (await sandbox.read_file(f"{task.workdir}/{name}")).decode() for name in after}
    finally:
        await sandbox.close()
    assert found == after


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (HEAD.format("x").replace("index", "deleted file mode 100644\nindex"), "deleted file mode"),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "rename from"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "old mode"),
        ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\nabc\n\n", "GIT binary patch"),
        (NEW.replace("100644", "100755"), "another mode"),
        (HEAD.format("x") + "@@ -1 +1 @@\n-\udce9\n+e\n", "not all UTF-8"),
    ],
    ids=lambda value: "" if len(value) > 20 else value,
)
def test_what_an_edit_tool_cannot_do_is_refused(patch: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        list(edits(patch.encode("utf-8", "surrogateescape")))


def test_a_profile_without_the_tool_is_refused(task: Task) -> None:
    with pytest.raises(PolicyError, match="no shell tool"):
        gold_script(task, load_profile("editor"), by="shell")
    with pytest.raises(PolicyError, match="no edit tool"):
        gold_script(task, load_profile("bash-only"), by="edit")
