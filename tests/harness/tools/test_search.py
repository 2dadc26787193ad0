"""`search`, with ripgrep and without: the same answers."""

import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(params=["rg", "grep"])
def engine(request, workspace, monkeypatch):
    """Both ways search.sh has; the second is what an image without ripgrep gets."""
    real = workspace.context.sandbox.exec

    async def exec_(command, **options):
        if request.param == "grep":
            options["env"] = {**(options.get("env") or {}), "NO_RG": "1"}
        return await real(command, **options)

    monkeypatch.setattr(
        type(workspace.context.sandbox), "exec", lambda self, command, **options: exec_(command, **options)
    )
    return request.param


@pytest_asyncio.fixture(loop_scope="session")
async def tree(workspace):
    await workspace.put("src/a.py", b"def f(x):\n\treturn x + 1\n\n\ndef g():\n\treturn f(2)\n")
    await workspace.put("src/deep/b.txt", "Return of the f(x)\nstra\u00dfe\n".encode())
    await workspace.put(".gitignore", b"ignored/\n*.log\n")
    await workspace.put("ignored/c.py", b"def f(x): pass\n")
    await workspace.put("out.log", b"def f(x)\n")
    await workspace.put(".hidden/d.py", b"def f(x)\n")
    await workspace.put("data.bin", b"\0\1def f(x)\n")
    await workspace.sh("git init -q .")
    return workspace


async def test_lines_with_their_place_in_path_order(tree, engine):
    seen = await tree.call("search", pattern=r"def \w\(")

    assert seen.text.split("\n") == ["src/a.py:1:def f(x):", "src/a.py:5:def g():"]
    assert seen.exit_code == 0


async def test_literal_and_case(tree, engine):
    assert (await tree.call("search", pattern="f(x)", literal=True)).text.count("\n") == 1
    assert (
        await tree.call("search", pattern="^RETURN", ignore_case=True)
    ).text == "src/deep/b.txt:1:Return of the f(x)"
    assert (await tree.call("search", pattern="stra\u00dfe")).text == "src/deep/b.txt:2:stra\u00dfe"


async def test_files_counts_globs_and_paths(tree, engine):
    assert (await tree.call("search", pattern="f", show="files")).text == "src/a.py\nsrc/deep/b.txt"
    assert (await tree.call("search", pattern="f", show="counts")).text == "src/a.py:3\nsrc/deep/b.txt:1"
    assert (await tree.call("search", pattern="f", show="files", glob="*.{txt,md}")).text == "src/deep/b.txt"
    assert (await tree.call("search", pattern="f", show="files", glob="deep/*")).text == "src/deep/b.txt"
    assert (await tree.call("search", pattern="f", show="files", path="src/deep/")).text == "src/deep/b.txt"
    assert (await tree.call("search", pattern="f", show="files", path="src/a.py")).text == "src/a.py"


async def test_context_lines(tree, engine):
    seen = await tree.call("search", pattern="def g", context=1)

    assert seen.text.split("\n") == ["src/a.py-4-", "src/a.py:5:def g():", "src/a.py-6-\treturn f(2)"]


async def test_a_cap_says_how_much_more(tree, engine):
    await tree.put("many.txt", b"".join(b"hit %d\n" % i for i in range(120)))

    seen = await tree.call("search", pattern="hit", max_results=20)

    assert seen.truncated
    assert seen.text.split("\n")[-2:] == [
        "many.txt:20:hit 19",
        "[100 more lines; narrow the search or raise max_results]",
    ]


async def test_long_lines_are_cut(tree, engine):
    await tree.put("min.js", b"x" * 50_000 + b"needle" + b"y" * 50_000)

    seen = await tree.call("search", pattern="needle|xx")

    assert len(seen.text) < 1000
    assert seen.text.endswith("[...]")


async def test_what_cannot_be_searched_is_explained(tree, engine):
    assert (await tree.call("search", pattern="nowhere")).text == "No matches for 'nowhere' in ."
    assert (await tree.call("search", pattern="f(")).text.startswith("Error: ")
    assert (await tree.call("search", pattern="f", path="missing")).text.startswith("Error: ")
    assert (await tree.call("search", pattern="two\nlines")).text.startswith("Error: the pattern must be one line")
    assert not (await tree.call("search", pattern="f(")).text.endswith("Error: ")


async def test_shell_characters_in_pattern_path_and_glob_are_only_text(tree, engine):
    await tree.put("we ird/$(touch pwned);'x'.txt", b'it\'s $HOME `id` "q" \\n -e\n')

    for pattern in ['it\'s $HOME `id` "q"', "-e", "\\n -e"]:
        seen = await tree.call("search", pattern=pattern, literal=True)
        assert seen.text.startswith("we ird/$(touch pwned);'x'.txt:1:"), pattern
    await tree.call("search", pattern="x", path="$(touch pwned)", glob="$(touch pwned)")
    assert "pwned" not in (await tree.sh("ls")).split()


async def test_a_workspace_that_is_no_repository(workspace, engine):
    await workspace.put("a/b.py", b"needle\n")
    await workspace.put(".h/c.py", b"needle\n")

    assert (await workspace.call("search", pattern="needle")).text == "a/b.py:1:needle"
