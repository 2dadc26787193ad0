"""`replace` does what edit's str_replace does, and asks for no more than it needs."""

import pytest

from harness.tools.edit import EDIT
from harness.tools.replace import REPLACE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_one_exact_replacement(workspace):
    await workspace.call("edit", command="create", path="a.py", file_text="x = 1\nx = 1\ny = 2\n")

    twice = await workspace.call("replace", path="a.py", old_str="x = 1", new_str="x = 3")
    assert twice.exit_code == 1
    assert (await workspace.call("replace", path="a.py", old_str="y = 2", new_str="y = 3")).exit_code == 0
    assert await workspace.get("a.py") == b"x = 1\nx = 1\ny = 3\n"
    assert not (await workspace.call("replace", path="a.py", old_str="", new_str="x")).valid


async def test_its_schema_is_what_it_is_for():
    assert len(str(REPLACE.schema)) < len(str(EDIT.schema)) / 3
