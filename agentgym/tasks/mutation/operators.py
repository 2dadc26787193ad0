"""Kinds of mistakes: each operator maps a syntax node to the nodes somebody could have written there by mistake.

Every result differs from its node and has the same shape around it, so that formatting and comments stay. What an operator
does is its first docstring line; `OPERATORS` is in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst
import libcst.matchers as m

Operator = Callable[[cst.CSTNode], Iterator[cst.CSTNode]]

_BOUNDARY = {
    cst.LessThan: cst.LessThanEqual, cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual, cst.GreaterThanEqual: cst.GreaterThan,
}  # fmt: skip
_OPPOSITE = {
    cst.Equal: cst.NotEqual, cst.NotEqual: cst.Equal, cst.In: cst.NotIn, cst.NotIn: cst.In, cst.Is: cst.IsNot, cst.IsNot: cst.Is,
}  # fmt: skip
_DIRECTION = {
    cst.LessThan: cst.GreaterThan, cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual, cst.GreaterThanEqual: cst.LessThanEqual,
}  # fmt: skip
_ARITHMETIC = {
    cst.Add: cst.Subtract, cst.Subtract: cst.Add, cst.Multiply: cst.Add, cst.FloorDivide: cst.Divide, cst.Modulo: cst.FloorDivide,
    cst.LeftShift: cst.RightShift, cst.RightShift: cst.LeftShift, cst.BitAnd: cst.BitOr, cst.BitOr: cst.BitAnd,
    cst.Divide: cst.Multiply,
}  # fmt: skip
_AUGMENTED = {cst.AddAssign: cst.SubtractAssign, cst.SubtractAssign: cst.AddAssign, cst.MultiplyAssign: cst.AddAssign}
_NAMES = {
    "min": "max", "any": "all", "first": "last", "startswith": "endswith", "lstrip": "rstrip", "upper": "lower", "find": "rfind",
    "append": "extend", "split": "rsplit", "partition": "rpartition", "keys": "values", "left": "right", "before": "after",
}  # fmt: skip
_NAMES |= {right: left for left, right in _NAMES.items()}


def _swap_operator(node: cst.CSTNode, kind: type, table: Mapping[type, type]) -> Iterator[cst.CSTNode]:
    if isinstance(node, kind):
        operator = node.operator  # type: ignore[attr-defined]
        wrong = table.get(type(operator))
        if wrong is not None:
            spaces = {
                name: getattr(operator, name)
                for name in ("whitespace_before", "whitespace_after")
                if hasattr(operator, name)
            }
            yield node.with_changes(operator=wrong(**spaces))


def comparison_boundary(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`<` for `<=` and the like."""
    yield from _swap_operator(node, cst.ComparisonTarget, _BOUNDARY)


def comparison_opposite(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`==` for `!=`, `in` for `not in`, `is` for `is not`."""
    yield from _swap_operator(node, cst.ComparisonTarget, _OPPOSITE)


def comparison_direction(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`<` for `>`."""
    yield from _swap_operator(node, cst.ComparisonTarget, _DIRECTION)


def arithmetic(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`+` for `-`, `//` for `%` and the like."""
    yield from _swap_operator(node, cst.BinaryOperation, _ARITHMETIC)
    yield from _swap_operator(node, cst.AugAssign, _AUGMENTED)


def boolean(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`and` for `or`."""
    yield from _swap_operator(node, cst.BooleanOperation, {cst.And: cst.Or, cst.Or: cst.And})


def lost_not(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`x` for `not x`."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        yield node.expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def off_by_one(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`n + 1` or `n - 1` for a whole number."""
    if isinstance(node, cst.Integer) and node.value.isdigit() and int(node.value) < 1000:
        value = int(node.value)
        yield node.with_changes(value=str(value + 1))
        if value > 0:
            yield node.with_changes(value=str(value - 1))


def wrong_default(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Another default for a parameter: the other truth value, a neighbouring number, no text."""
    if not isinstance(node, cst.Param) or node.default is None:
        return
    default = node.default
    if isinstance(default, cst.Name) and default.value in ("True", "False"):
        yield node.with_changes(default=cst.Name("False" if default.value == "True" else "True"))
    elif isinstance(default, cst.Integer) and default.value.isdigit():
        yield node.with_changes(default=cst.Integer(str(int(default.value) + 1)))
    elif isinstance(default, cst.SimpleString) and len(default.raw_value) > 0:
        yield node.with_changes(default=cst.SimpleString("''"))


def swapped_arguments(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The first two positional arguments of a call in the wrong order."""
    if isinstance(node, cst.Call) and len(node.args) >= 2:
        first, second = node.args[0], node.args[1]
        plain = all(argument.keyword is None and not argument.star for argument in (first, second))
        if plain and not first.value.deep_equals(second.value):
            swapped = [first.with_changes(value=second.value), second.with_changes(value=first.value)]
            yield node.with_changes(args=[*swapped, *node.args[2:]])


def dropped_else(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An `else` or `elif` that is forgotten."""
    if isinstance(node, cst.If) and node.orelse is not None:
        rest = node.orelse.orelse if isinstance(node.orelse, cst.If) else None
        yield node.with_changes(orelse=rest)


def dropped_guard(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A special case at the beginning that is not handled: its condition never holds."""
    leaves = m.SimpleStatementLine(body=[m.OneOf(m.Return(), m.Raise(), m.Continue(), m.Break())])
    if (
        isinstance(node, cst.If)
        and node.orelse is None
        and isinstance(node.body, cst.IndentedBlock)
        and len(node.body.body) == 1
        and m.matches(node.body.body[0], leaves)
    ):
        yield cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=node.leading_lines)


def dropped_statement(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A step that is forgotten: a call made for its effect, or an update of a variable."""
    effect = m.SimpleStatementLine(body=[m.OneOf(m.AugAssign(), m.Expr(value=m.Call()))])
    if isinstance(node, cst.SimpleStatementLine) and m.matches(node, effect):
        yield node.with_changes(body=[cst.Pass()])


def missing_await(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`x` for `await x`."""
    if isinstance(node, cst.Await):
        yield node.expression


def wrong_exit(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`break` for `continue` and the other way round."""
    if isinstance(node, cst.Break):
        yield cst.Continue()
    elif isinstance(node, cst.Continue):
        yield cst.Break()


def wrong_return(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The other truth value, or the first argument instead of the result."""
    if isinstance(node, cst.Return) and isinstance(node.value, cst.Name) and node.value.value in ("True", "False"):
        yield node.with_changes(value=cst.Name("False" if node.value.value == "True" else "True"))
    elif isinstance(node, cst.Return) and isinstance(node.value, cst.Call) and node.value.args:
        argument = node.value.args[0]
        if argument.keyword is None and not argument.star and isinstance(argument.value, cst.Name):
            yield node.with_changes(value=argument.value)


def wrong_name(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The opposite function or method: `min` for `max`, `lstrip` for `rstrip`."""
    if isinstance(node, cst.Call):
        function = node.func
        if isinstance(function, cst.Name) and function.value in _NAMES:
            yield node.with_changes(func=cst.Name(_NAMES[function.value]))
        elif isinstance(function, cst.Attribute) and function.attr.value in _NAMES:
            yield node.with_changes(func=function.with_changes(attr=cst.Name(_NAMES[function.attr.value])))


def wrong_slice(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`x[n:]` for `x[:n]`."""
    if isinstance(node, cst.Slice) and node.step is None and (node.lower is None) != (node.upper is None):
        yield node.with_changes(lower=node.upper, upper=node.lower)


OPERATORS: Mapping[str, Operator] = {
    function.__name__: function
    for function in (
        comparison_boundary, comparison_opposite, comparison_direction, arithmetic, boolean, lost_not, off_by_one, wrong_default,
        swapped_arguments, dropped_else, dropped_guard, dropped_statement, missing_await, wrong_exit, wrong_return, wrong_name,
        wrong_slice,
    )
}  # fmt: skip
"""Every operator by its name."""
