"""Dockerfiles are read the way Docker reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.sandbox.context import collect, parse_copy
from agentgym.sandbox.dockerfile import Instruction, external_images, parse, rebase, stages, substitute
from agentgym.sandbox.localbuild import stand_in
from agentgym.sandbox.protocol import ImageError


def test_continuations_join_and_comments_inside_them_vanish():
    text = "FROM a:1\nRUN one \\\n# a comment\n  && two\n\nWORKDIR /x\n"
    assert [(item.name, item.value.split(), item.line) for item in parse(text)] == [
        ("FROM", ["a:1"], 1),
        ("RUN", ["one", "&&", "two"], 2),
        ("WORKDIR", ["/x"], 6),
    ]


def test_a_heredoc_body_is_the_script_and_renders_without_heredoc():
    item = parse("FROM a:1\nRUN <<EOF\necho 'a b'\necho $X\nEOF\nWORKDIR /x\n")[1]
    assert item.script == "echo 'a b'\necho $X\n"
    assert item.render() == 'RUN ["/bin/sh", "-c", "echo \'a b\'\\necho $X\\n"]'


def test_a_heredoc_that_feeds_a_command_stays_one():
    item = parse("FROM a:1\nRUN cat <<'END' > /f && cat <<-TWO\n  body $X\nEND\n\t\ttabs\n\tTWO\nRUN next\n")
    assert item[1].script == "cat <<'END' > /f && cat <<-TWO\n  body $X\nEND\ntabs\nTWO\n"
    assert item[2].value == "next"


def test_words_in_a_heredoc_are_no_instructions_and_shifts_are_no_heredocs():
    items = parse("FROM a:1\nRUN <<E\nFROM b:2\nUSER x\nE\nENV N=1<<2\nRUN echo $((1<<3))\n")
    assert [item.name for item in items] == ["FROM", "RUN", "ENV", "RUN"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("RUN true\n", "no FROM"), ("FROM a:1\nRUN <<EOF\nx\n", "never ends"), ("", "no FROM")],
)
def test_what_cannot_be_built_is_said(text: str, complaint: str):
    with pytest.raises(ImageError, match=complaint):
        parse(text)


def test_arguments_choose_the_base_and_only_outside_images_are_replaced():
    text = "ARG V=3.11\nFROM python:${V}-slim AS build\nFROM build AS tests\nFROM scratch\nFROM debian:bookworm\n"
    items = parse(text)
    assert [stage.image for stage in stages(items)] == ["python:3.11-slim", "build", "scratch", "debian:bookworm"]
    assert external_images(items) == ["python:3.11-slim", "debian:bookworm"]
    values = [item.value for item in rebase(items, {"python:3.11-slim": "ours:1"}) if item.name == "FROM"]
    assert values == ["ours:1 AS build", "build AS tests", "scratch", "debian:bookworm"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A/b", "1/b"),
        ("${A}b", "1b"),
        ("${MISSING:-other}", "other"),
        ("${A:+set}", "set"),
        ("${MISSING:+set}", ""),
        ("'$A'", "'$A'"),
    ],
)
def test_variables_are_replaced_as_docker_does(text: str, expected: str):
    assert substitute(text, {"A": "1"}) == expected


def copied(context: Path, text: str, workdir: str = "/w") -> list[str]:
    item = Instruction("COPY", text, 1)
    import io
    import tarfile

    data, _ = collect(context, parse_copy(item, text.split(), workdir), item)
    return sorted(tarfile.open(fileobj=io.BytesIO(data)).getnames())


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "dir/inner/c.txt", "secret.key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".dockerignore").write_text("# keys stay here\n*.key\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.txt /x/", ["x/a.txt"]),
        ("a.txt /x/y.txt", ["x/y.txt"]),
        ("a.txt .", ["w/a.txt"]),
        ("*.txt sub/", ["w/sub/a.txt", "w/sub/b.txt"]),
        ("dir /x", ["x/inner", "x/inner/c.txt"]),
        ("--chown=1:1 a.txt b.txt /x/", ["x/a.txt", "x/b.txt"]),
    ],
)
def test_copy_puts_files_where_docker_does(context: Path, text: str, expected: list[str]):
    assert copied(context, text) == expected


def test_copy_of_everything_respects_dockerignore(context: Path):
    names = copied(context, ". .")
    assert "w/a.txt" in names
    assert not any("secret" in name for name in names)


@pytest.mark.parametrize(
    "text", ["missing /x", "../outside /x", "secret.key /x", "https://host/file /x", "--from=build a /x"]
)
def test_copy_refuses_what_is_not_in_the_context(context: Path, text: str):
    with pytest.raises(ImageError, match="COPY"):
        copied(context, text)


def test_the_copy_digest_follows_content_and_ignores_times(context: Path):
    item = Instruction("COPY", "a.txt /x", 1)

    def digest() -> str:
        return collect(context, parse_copy(item, ["a.txt", "/x"], "/"), item)[1]

    before = digest()
    (context / "a.txt").touch()
    assert digest() == before
    (context / "a.txt").write_text("other")
    assert digest() != before


def test_the_host_stands_in_for_its_own_python_only():
    assert "stands in" in stand_in("python:3-slim")
    for name in ("python:2.7", "node:20", "ubuntu:24.04"):
        with pytest.raises(ImageError, match=name):
            stand_in(name)
