"""Every place in a module where a bug could be, and mutants of them in a fair, seeded, duplicate-free order.

A mutant is the module's text with one node replaced. Annotations, decorators, docstrings and module-level constants are left
alone: a bug there is either invisible or no mistake of logic. Two mutants are the same if their syntax trees are.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from agentgym.tasks.mutation.operators import OPERATORS


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. path: the module, relative to the root. source: its text with the bug. line: 1-based, in the healthy text.

    function: dotted name of the function it is in. length: lines of that function. key: identifies the bug across runs.
    wrong: the lines of `source` that differ from the healthy text.
    """

    path: str
    operator: str
    line: int
    function: str
    length: int
    source: str
    key: str
    wrong: tuple[str, ...]

    def spelled(self, healthy: str, source: str, number: int) -> Mutant:
        """The same bug in another spelling of its module."""
        return replace(self, source=source, key=f"{self.key}-{number}", wrong=lines_not_in(healthy, source))


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place where an operator applies; `mutant` writes it out, which costs a copy of the module."""

    path: str
    operator: str
    line: int
    function: str
    length: int
    key: str
    module: cst.Module
    node: cst.CSTNode
    wrong: cst.CSTNode

    def mutant(self) -> Mutant | None:
        """None where the result is no Python, e.g. `break` where only `continue` may stand."""
        changed = self.module.deep_replace(self.node, self.wrong)
        source = changed.code if isinstance(changed, cst.Module) else ""
        try:
            ast.parse(source)
        except SyntaxError:
            return None
        wrong = lines_not_in(self.module.code, source)
        return Mutant(self.path, self.operator, self.line, self.function, self.length, source, self.key, wrong)


def lines_not_in(healthy: str, source: str) -> tuple[str, ...]:
    """The lines of `source` that a diff against `healthy` adds or changes."""
    before, after = healthy.splitlines(), source.splitlines()
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return tuple(line for kind, _, _, first, last in changes if kind != "equal" for line in after[first:last])


def function_text(source: str, function: str) -> str:
    """The lines of a function, decorators included, as they stand in the module; `function` is its dotted name."""
    scope: Sequence[ast.AST] = ast.parse(source).body
    found: ast.AST | None = None
    for name in function.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next(node for one in scope for node in ast.walk(one) if isinstance(node, kinds) and node.name == name)
        scope = found.body
    assert isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)), function
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    return "\n".join(source.split("\n")[first - 1 : found.end_lineno])


@dataclass(frozen=True, slots=True)
class Choice:
    """Which sites to use. operators: only these kinds. max_lines: only in functions no longer than this. None: all."""

    operators: frozenset[str] | None = None
    max_lines: int | None = None

    def takes(self, site: Site) -> bool:
        known = self.operators is None or site.operator in self.operators
        return known and (self.max_lines is None or site.length <= self.max_lines)


class _Sites(cst.CSTVisitor):
    """Collects (operator, node, replacement, function) in source order, inside of functions only."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode, str, int]] = []
        self._names: list[str] = []
        self._functions: list[cst.FunctionDef] = []

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._names.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._names.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self._names.append(node.name.value)
        self._functions.append(node)
        return not _is_overload(node)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._names.pop()
        self._functions.pop()

    def on_visit(self, node: cst.CSTNode) -> bool:
        go_on = super().on_visit(node)
        if self._functions and node is not self._functions[-1]:
            place = cast(CodeRange, self.get_metadata(PositionProvider, self._functions[-1]))
            length = place.end.line - place.start.line + 1
            for name, operator in OPERATORS.items():
                self.found.extend((name, node, wrong, ".".join(self._names), length) for wrong in operator(node))
        return go_on


def _is_overload(node: cst.FunctionDef) -> bool:
    return any(isinstance(each.decorator, cst.Name) and each.decorator.value == "overload" for each in node.decorators)


def sites_of(path: str, text: str) -> list[Site]:
    """Every site of one module; none where it does not parse."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(text))
        visitor = _Sites()
        wrapper.visit(visitor)
    except (cst.ParserSyntaxError, RecursionError):
        return []
    positions = wrapper.resolve(PositionProvider)
    sites = []
    for operator, node, wrong, function, length in visitor.found:
        start = positions[node].start
        identity = f"{path}\0{start.line}\0{start.column}\0{operator}\0{wrapper.module.code_for_node(wrong)}"
        key = hashlib.sha256(identity.encode()).hexdigest()[:12]
        sites.append(Site(path, operator, start.line, function, length, key, wrapper.module, node, wrong))
    return sites


def mutants_of(sites: Iterable[Site]) -> Iterator[Mutant]:
    """The sites written out, each syntax tree once."""
    seen: set[str] = set()
    for site in sites:
        mutant = site.mutant()
        tree = ast.dump(ast.parse(mutant.source)) if mutant else ""
        if mutant and tree not in seen:
            seen.add(tree)
            yield mutant


def _turn(site: Site, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {site.path} {site.operator}".encode()).digest()


def shuffled(sites: Iterable[Site], seed: int) -> Iterator[Site]:
    """The sites in a seeded order that goes round the modules' functions and prefers operators not used lately.

    Which operator of several unused ones comes first is another one for each module, so that the first bugs of many modules are
    of many kinds, and not of those that have the most places.
    """
    groups: dict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in sites:
        groups[site.path, site.function].append(site)
    dice = random.Random(seed)
    queues = [sorted(group, key=lambda site: site.key) for _, group in sorted(groups.items())]
    for queue in queues:
        dice.shuffle(queue)
        queue.sort(key=lambda site: _turn(site, seed))
    dice.shuffle(queues)
    recent: deque[str] = deque(maxlen=40)
    while any(queues):
        for queue in filter(None, queues):
            rarest = min(queue, key=lambda site: recent.count(site.operator))
            queue.remove(rarest)
            recent.append(rarest.operator)
            yield rarest
