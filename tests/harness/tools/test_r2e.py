"""R2E-Gym's tools do what ours do, under their own names."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_four_tools(workspace):
    created = await workspace.call("r2e_file_editor", command="create", path="a.py", file_text="x = 1\n")
    assert created.exit_code == 0
    await workspace.call("r2e_file_editor", command="insert", path="a.py", insert_line=1, new_str="y = 2")
    await workspace.call("r2e_file_editor", command="str_replace", path="a.py", old_str="x = 1\n")
    assert await workspace.get("a.py") == b"y = 2\n"
    await workspace.call("r2e_file_editor", command="undo_edit", path="a.py")
    assert await workspace.get("a.py") == b"x = 1\ny = 2\n"

    assert (await workspace.call("r2e_search", search_term="y = ")).text == "a.py:2:y = 2"
    assert (await workspace.call("r2e_execute_bash", cmd="cat a.py")).text == "x = 1\ny = 2"
    assert (await workspace.call("r2e_finish", command="submit")).done


async def test_wrong_arguments_name_its_own_arguments(workspace):
    seen = await workspace.call("r2e_execute_bash", command="ls")

    assert not seen.valid
    assert "- cmd: field required" in seen.text
