"""The same bug in other words: the names that only a module's functions use are exchanged for others, everywhere alike.

What a test or another module could know a thing by stays: functions, classes, attributes, constants, arguments passed by
keyword. So the tests say of a spelling what they say of the original, and a trial sees to it that they do.
"""

from __future__ import annotations

import builtins
import random
import re
from collections.abc import Iterable

import libcst as cst
from libcst.metadata import ClassScope, GlobalScope, MetadataWrapper, ScopeProvider

_POOL = """
amount answer batch block bound branch bucket buffer cell chain chunk column count current cursor degree depth distance draft
edge element entry extent factor field figure final frame front gap gauge grade guess height hint holder index inner interval
item label lead left level limit link load lower margin mark measure member middle mode moment motion node note number offset
option outer pair part piece pivot place plan point portion prior probe quota rate ratio reach record region rest
result reading row sample scale scope score second section seed segment series share shift side sign size slot source
span spare spot stage start state step stock store strip target term threshold token total trace track trial unit upper usage
value vector volume weight width window zone
"""


def free_names(module: str, others: Iterable[str]) -> list[str]:
    """Names of variables and parameters that nothing outside of the functions of `module` can refer to, sorted.

    others: the texts of its tests and of the modules beside it, for what they pass by keyword.
    """
    wrapper = MetadataWrapper(cst.parse_module(module))
    local, kept = set[str](), {"self", "cls", *dir(builtins)}
    for scope in {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}:
        names = {assignment.name for assignment in scope.assignments}
        (kept if isinstance(scope, (GlobalScope, ClassScope)) else local).update(names)
    for text in (module, *others):
        kept |= _keywords(text)
    return sorted(name for name in local - kept if name.isidentifier() and not name.startswith("_"))


def new_names(names: Iterable[str], module: str, seed: str) -> dict[str, str]:
    """A word for each name, none of which `module` uses in any way; another seed, other words."""
    words = [word for word in _POOL.split() if word not in module]
    random.Random(seed).shuffle(words)
    return dict(zip(names, words, strict=False))


def respelled(text: str, names: dict[str, str]) -> str:
    """`text` with the names exchanged, but for attributes and keywords of calls."""
    changed = cst.parse_module(text).visit(_Renamer(names))
    assert isinstance(changed, cst.Module)
    return changed.code


class _Renamer(cst.CSTTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self.names.get(original_node.value, original_node.value))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def _keywords(text: str) -> set[str]:
    """What calls pass by keyword; of a text that LibCST cannot read, whatever could be one."""
    found = set[str]()

    class Keywords(cst.CSTVisitor):
        def visit_Arg(self, node: cst.Arg) -> None:
            if node.keyword is not None:
                found.add(node.keyword.value)

    try:
        cst.parse_module(text).visit(Keywords())
    except cst.ParserSyntaxError:
        return set(re.findall(r"(\w+)\s*=", text))
    return found
