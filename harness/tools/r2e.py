"""The four tools of R2E-Gym under their names and argument names, for policies that were trained on them.

What they do is what `bash`, `search` and `edit` do; only the words differ.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.bash import BASH
from harness.tools.edit import EDIT
from harness.tools.search import SEARCH


class ExecuteBashArguments(Arguments):
    cmd: str = Field(description="The command to run", min_length=1)


class SearchTermArguments(Arguments):
    search_term: str = Field(description="The text to find", min_length=1)
    path: str = Field(default=".", description="File or directory to search", min_length=1)


class FileEditorArguments(Arguments):
    command: Literal["view", "create", "str_replace", "insert", "undo_edit"] = Field(description="What to do")
    path: str = Field(description="The file or directory", min_length=1)
    file_text: str | None = Field(default=None, description="create: content of the new file")
    old_str: str | None = Field(default=None, description="str_replace: exact text to replace; must occur once")
    new_str: str | None = Field(default=None, description="str_replace: its replacement; insert: the lines to insert")
    insert_line: int | None = Field(default=None, description="insert: line after which to insert", ge=0)
    view_range: list[int] | None = Field(
        default=None, description="view: first and last line, -1 for the end", min_length=2, max_length=2
    )
    concise: bool = Field(default=False, description="Accepted and ignored: views are cut by length already")


class FinishArguments(Arguments):
    command: Literal["submit"] = Field(default="submit", description="submit")
    result: str = Field(default="", description="The result, in words")


async def _execute_bash(context: ToolContext, arguments: ExecuteBashArguments) -> Observation:
    return await BASH.run(context, {"command": arguments.cmd})


async def _search(context: ToolContext, arguments: SearchTermArguments) -> Observation:
    return await SEARCH.run(context, {"pattern": arguments.search_term, "path": arguments.path, "literal": True})


async def _file_editor(context: ToolContext, arguments: FileEditorArguments) -> Observation:
    renamed = arguments.model_dump(exclude_none=True, exclude={"concise"})
    if arguments.command == "undo_edit":
        renamed["command"] = "undo"
    elif arguments.command == "insert" and arguments.new_str is not None:
        renamed["insert_text"] = renamed.pop("new_str")
    elif arguments.command == "str_replace":
        renamed.setdefault("new_str", "")
    return await EDIT.run(context, renamed)


async def _finish(context: ToolContext, arguments: FinishArguments) -> Observation:
    return Observation("Submitted.", done=True)


R2E_TOOLS = {
    "r2e_execute_bash": Tool(
        "execute_bash",
        "Run a shell command. Directory and exported variables are kept between calls; long output is cut in the middle.",
        ExecuteBashArguments,
        _execute_bash,
    ),
    "r2e_search": Tool(
        "search",
        "Find text in a file, or in the files of a directory.",
        SearchTermArguments,
        _search,
        changes_files=False,
    ),
    "r2e_file_editor": Tool(
        "file_editor",
        "View, create and edit files: view, create, str_replace (old_str must match exactly once), insert, undo_edit.",
        FileEditorArguments,
        _file_editor,
    ),
    "r2e_finish": Tool("finish", "Submit when the task is solved.", FinishArguments, _finish, changes_files=False),
}
"""By the names profiles use; the names policies see are R2E-Gym's own."""
