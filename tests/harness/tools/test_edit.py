"""`edit` in a real sandbox: what is not edited stays, and every refusal says what to do."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def edit(workspace, command, path="f.py", **arguments):
    return await workspace.call("edit", command=command, path=path, **arguments)


async def test_view_numbers_lines_and_takes_a_range(workspace):
    await workspace.put("f.py", b"one\ntwo\nthree")

    assert (await edit(workspace, "view")).text == "     1\tone\n     2\ttwo\n     3\tthree"
    assert (await edit(workspace, "view", view_range=[2, -1])).text == "     2\ttwo\n     3\tthree\n[lines 2-3 of 3]"
    assert "does not fit: f.py has 3 lines" in (await edit(workspace, "view", view_range=[9, 12])).text


async def test_view_of_a_long_file_says_where_it_goes_on(workspace):
    await workspace.put("f.py", b"".join(b"line number %d\n" % i for i in range(5000)))

    seen = await edit(workspace, "view")

    assert seen.truncated
    last = int(seen.text.split("\n")[-2].split()[0])
    assert seen.text.endswith(f"[lines {last + 1}-5000 of 5000 left out; view them with view_range]")


async def test_view_lists_a_directory(workspace):
    await workspace.put("pkg/mod.py", b"")
    await workspace.put("pkg/.secret", b"")

    assert (await edit(workspace, "view", ".")).text == "./ holds:\npkg\npkg/mod.py"


async def test_create_writes_exactly_the_text_and_never_overwrites(workspace):
    assert (await edit(workspace, "create", "new/f.py", file_text="a\n  b")).exit_code == 0
    assert await workspace.get("new/f.py") == b"a\n  b"

    again = await edit(workspace, "create", "new/f.py", file_text="x")
    assert again.exit_code == 1
    assert "exists; change it with str_replace" in again.text
    assert await workspace.get("new/f.py") == b"a\n  b"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\nb\r\nc\n", "c", "d\ne", b"a\nb\r\nd\ne\n"),
        (b"\tif x:\n\t\ty\n", "\t\ty", "\t\tz", b"\tif x:\n\t\tz\n"),
        (b"no newline at end", "end", "the end", b"no newline at the end"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2", b"\xef\xbb\xbfx = 2\n"),
        (b"caf\xe9 = 1\n", "= 1", "= 2", b"caf\xe9 = 2\n"),
        ("é = 1\n".encode("utf-16"), "= 1", "= 2", "é = 2\n".encode("utf-16")),
        (b"a\x0cb\n", "b", "c", b"a\x0cc\n"),
        (b"x\\1$&\n", "x", "\\1$&", b"\\1$&\\1$&\n"),
    ],
    ids=["crlf", "mixed-eol", "tabs", "no-final-newline", "bom", "latin-1", "utf-16", "form-feed", "regex-characters"],
)
async def test_replace_changes_only_what_was_asked(workspace, before, old, new, after):
    await workspace.put("f.py", before, mode=0o755)

    seen = await edit(workspace, "str_replace", old_str=old, new_str=new)

    assert seen.exit_code == 0, seen.text
    assert await workspace.get("f.py") == after
    assert (await workspace.sh("stat -c %a f.py")).strip() == "755"


async def test_replace_refuses_several_matches_unless_all_is_asked(workspace):
    await workspace.put("f.py", b"x = 1\ny = 1\nz = 1\n")

    refused = await edit(workspace, "str_replace", old_str="= 1", new_str="= 2")
    assert (refused.exit_code, refused.valid) == (1, True)
    assert "occurs 3 times in f.py (lines 1, 2, 3)" in refused.text
    assert await workspace.get("f.py") == b"x = 1\ny = 1\nz = 1\n"

    assert "in 3 places" in (await edit(workspace, "str_replace", old_str="= 1", new_str="= 2", all=True)).text
    assert await workspace.get("f.py") == b"x = 2\ny = 2\nz = 2\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "x", "non-empty old_str"),
        (None, "x", "non-empty old_str"),
        ("x", None, "needs new_str"),
        ("def f", "def f", "are the same"),
        ("    return 1", "x", "differ from it only in blanks"),
        ("def ff():\n\treturn 1", "x", "most similar lines are:\n     1\tdef f():"),
        ("qqqqqqqqqqqqqq", "x", "Nothing similar is in the file; view it first"),
    ],
)
async def test_a_replacement_that_cannot_be_made_says_what_to_do(workspace, old, new, says):
    await workspace.put("f.py", b"def f():\n\treturn 1\n")
    arguments = {name: text for name, text in (("old_str", old), ("new_str", new)) if text is not None}

    seen = await edit(workspace, "str_replace", **arguments)

    assert seen.exit_code == 1
    assert says in seen.text
    assert await workspace.get("f.py") == b"def f():\n\treturn 1\n"


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "x", b"x\na\nb\n"),
        (b"a\nb\n", 1, "x\n", b"a\nx\nb\n"),
        (b"a\nb\n", 2, "x", b"a\nb\nx\n"),
        (b"a\nb", 2, "x\n", b"a\nb\nx"),
        (b"a\r\nb\r\n", 1, "x\ny", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"", 0, "x", b"x\n"),
    ],
)
async def test_insert(workspace, before, line, text, after):
    await workspace.put("f.py", before)

    assert (await edit(workspace, "insert", insert_line=line, insert_text=text)).exit_code == 0

    assert await workspace.get("f.py") == after


async def test_undo_takes_back_only_its_own_last_edit(workspace):
    await workspace.put("f.py", b"a\r\n")
    await edit(workspace, "str_replace", old_str="a", new_str="b")
    await edit(workspace, "str_replace", old_str="b", new_str="c")

    await edit(workspace, "undo")
    assert await workspace.get("f.py") == b"b\r\n"
    await workspace.sh("echo more >> f.py")
    assert "undo would lose that" in (await edit(workspace, "undo")).text
    await workspace.put("f.py", b"b\r\n")
    await edit(workspace, "undo")
    assert await workspace.get("f.py") == b"a\r\n"
    assert "no edit of f.py to undo" in (await edit(workspace, "undo")).text

    await edit(workspace, "create", "g.py", file_text="x")
    await edit(workspace, "undo", "g.py")
    assert "g.py" not in await workspace.sh("ls")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../escape.py", "link/passwd", "file_link", "link/new.py", "a/../../x"]
)
async def test_nothing_outside_the_workspace_is_reached(workspace, path):
    await workspace.sh("ln -s /etc link; ln -s /etc/passwd file_link; mkdir a")

    for command, arguments in [
        ("view", {}),
        ("create", {"file_text": "x"}),
        ("str_replace", {"old_str": "root", "new_str": "x"}),
    ]:
        seen = await edit(workspace, command, path, **arguments)
        assert seen.exit_code == 1
        assert "leads outside the workspace" in seen.text


async def test_links_inside_the_workspace_are_followed_and_kept(workspace):
    await workspace.put("real.py", b"a\n")
    await workspace.sh("ln -s real.py link.py; ln -s loop loop")

    await edit(workspace, "str_replace", "link.py", old_str="a", new_str="b")

    assert await workspace.get("real.py") == b"b\n"
    assert (await workspace.sh("readlink link.py")).strip() == "real.py"
    assert "cannot be resolved" in (await edit(workspace, "view", "loop")).text


async def test_binary_missing_and_directory(workspace):
    await workspace.put("b.bin", b"\x7fELF\0\0")

    assert "binary" in (await edit(workspace, "view", "b.bin")).text
    assert "there is no file nope.py; to make it use create" in (await edit(workspace, "view", "nope.py")).text
    await workspace.sh("mkdir d")
    assert "d is a directory" in (await edit(workspace, "insert", "d", insert_line=0, insert_text="x")).text


async def test_content_and_names_of_any_kind_travel_untouched(workspace):
    text = "'$(id)' `x` \\ \"q\" \U0001f642 -- EOF\n" * 40_000  # larger than any command line

    assert (await edit(workspace, "create", "-we $ird 'n'.txt", file_text=text)).exit_code == 0

    assert await workspace.get("-we $ird 'n'.txt") == text.encode()
