"""Dockerfiles as data: one front end for both image builders.

`parse` gives the instructions with continuations joined and heredocs kept apart; `rebase` replaces every FROM by the
base this machine has; `render` turns heredocs into plain commands, since the classic Docker builder knows none. The
Docker builder sends the rendered text, the `local` backend interprets the same instructions, and both end with the
same last step (`agentgym.sandbox.finish`), so that they build the same thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, cast

from dockerfile_parse import DockerfileParser
from dockerfile_parse.util import WordSplitter

from agentgym.sandbox.protocol import ImageError

_HEREDOC = re.compile(r"<<(-?)\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\2")
_TAKES_HEREDOC = re.compile(r"^\s*(RUN|COPY|ADD)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heredoc:
    name: str
    body: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. name: upper case. value: the rest, continuations joined. line: 1-based, where it starts."""

    name: str
    value: str
    line: int
    heredocs: tuple[Heredoc, ...] = field(default=())

    def __str__(self) -> str:
        value = self.value if len(self.value) <= 200 else self.value[:200] + "…"
        return f"line {self.line}: {self.name} {value}"

    @property
    def exec_form(self) -> list[str] | None:
        """The argv of `RUN ["a", "b"]`, None for the shell form."""
        try:
            argv = json.loads(self.value) if self.value.startswith("[") else None
        except ValueError:
            return None
        return argv if isinstance(argv, list) and all(isinstance(word, str) for word in argv) else None

    @property
    def script(self) -> str:
        """The shell text of a shell-form RUN, heredoc bodies included."""
        if not self.heredocs:
            return self.value
        if len(self.heredocs) == 1 and _HEREDOC.fullmatch(self.value.strip()):
            return self.heredocs[0].body
        bodies = "".join(f"{doc.body}{doc.name}\n" for doc in self.heredocs)
        return f"{self.value}\n{bodies}"

    def render(self) -> str:
        """The instruction as Dockerfile text without heredocs."""
        if self.name == "RUN" and self.heredocs:
            return f"RUN {json.dumps(['/bin/sh', '-c', self.script])}"
        if self.heredocs:
            raise ImageError(
                f"Dockerfile {self}: a heredoc is supported in RUN only; put the content in a file and COPY it"
            )
        return f"{self.name} {self.value}"


def parse(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, comments dropped; ImageError where a heredoc never ends or there is no FROM."""
    stripped, heredocs = _take_heredocs(text)
    parser = DockerfileParser(fileobj=cast("Any", BytesIO(stripped.encode())))  # its own type says str, it reads bytes
    found = [
        Instruction(
            entry["instruction"], entry["value"].strip(), entry["startline"] + 1, heredocs.get(entry["startline"], ())
        )
        for entry in parser.structure
        if entry["instruction"] != "COMMENT"
    ]
    if not any(item.name == "FROM" for item in found):
        raise ImageError("the Dockerfile has no FROM instruction")
    return found


def _take_heredocs(text: str) -> tuple[str, dict[int, tuple[Heredoc, ...]]]:
    """Blank the heredoc bodies (line numbers stay) and return them by the line on which their instruction starts."""
    lines = text.splitlines()
    kept: list[str] = []
    found: dict[int, tuple[Heredoc, ...]] = {}
    index, start = 0, 0
    continues = False
    while index < len(lines):
        line = lines[index]
        comment = line.lstrip().startswith("#")
        if not continues and not comment:
            start = index
        kept.append(line)
        index += 1
        if comment:
            continue
        continues = line.rstrip().endswith("\\")
        if not _TAKES_HEREDOC.match(lines[start]):
            continue
        for dash, quote, name in _HEREDOC.findall(line):
            body: list[str] = []
            while index < len(lines) and (lines[index].lstrip("\t") if dash else lines[index]) != name:
                body.append(lines[index].lstrip("\t") if dash else lines[index])
                kept.append("")
                index += 1
            if index == len(lines):
                raise ImageError(f"Dockerfile line {start + 1}: heredoc <<{name} never ends")
            kept.append("")
            index += 1
            found[start] = (*found.get(start, ()), Heredoc(name, "".join(f"{row}\n" for row in body), bool(quote)))
    return "\n".join(kept) + "\n", found


def substitute(value: str, variables: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` replaced, also `${NAME:-default}` and `${NAME:+other}`; quotes kept as they are."""

    def default(match: re.Match[str]) -> str:
        name, operator, word = match.groups()
        present = bool(variables.get(name))
        return (variables[name] if present else word) if operator == "-" else (word if present else "")

    value = re.sub(r"(?<!\\)\$\{([A-Za-z_]\w*):([-+])([^}]*)\}", default, value)
    words = WordSplitter(value, args={}, envs=dict(variables)).split(maxsplit=0, dequote=False)
    return "".join(word or "" for word in words)


@dataclass(frozen=True, slots=True)
class Stage:
    """A FROM: the image it names (arguments resolved), and the name later stages know it by."""

    image: str
    alias: str | None
    index: int


def stages(instructions: list[Instruction]) -> list[Stage]:
    """Every FROM in order; `index` points into `instructions`."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for index, item in enumerate(instructions):
        if item.name == "ARG" and not found:
            name, _, value = item.value.partition("=")
            arguments[name.strip()] = WordSplitter(substitute(value, arguments)).dequote()
        elif item.name == "FROM":
            words = [word for word in item.value.split() if not word.startswith("--")]
            if not words:
                raise ImageError(f"Dockerfile {item}: FROM names no image")
            alias = words[2] if len(words) == 3 and words[1].upper() == "AS" else None
            found.append(Stage(substitute(words[0], arguments), alias, index))
    return found


def external_images(instructions: list[Instruction]) -> list[str]:
    """The images the build needs from outside: every FROM that is neither `scratch` nor an earlier stage."""
    known: set[str] = {"scratch"}
    needed: list[str] = []
    for stage in stages(instructions):
        if stage.image not in known and stage.image not in needed:
            needed.append(stage.image)
        if stage.alias:
            known.add(stage.alias)
    return needed


def rebase(instructions: list[Instruction], bases: Mapping[str, str]) -> list[Instruction]:
    """The same instructions with every external FROM replaced by `bases[image]`."""
    result = list(instructions)
    for stage in stages(instructions):
        if stage.image in bases:
            suffix = f" AS {stage.alias}" if stage.alias else ""
            result[stage.index] = replace(result[stage.index], value=bases[stage.image] + suffix)
    return result
