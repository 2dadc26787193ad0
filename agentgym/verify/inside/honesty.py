"""Values that agree with everything: a solution can satisfy `assert f(x) == y` by returning something equal to all.

Sent along with `runner.py`; standard library only. Every comparison in a rewritten assertion, and unittest's assertEqual, also
shows its operands to `Honesty.look`: a value of a class that came with the workspace (not with the installation, not with the
tests, which use such values on purpose) and that equals, contains or is ordered against an object it has never seen is a
finding.
"""

import ast

METHODS = ("__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__")


class Stranger:
    """Equal to nothing but itself, ordered against nothing."""

    __slots__ = ()


class Honesty:
    """known_classes: classes loaded before the workspace was open. is_owned: whether a file belongs to the tests."""

    def __init__(self, known_classes, is_owned, findings):
        self.known, self.is_owned, self.findings = known_classes, is_owned, findings
        self.looking = False

    def look(self, *operands):
        if self.looking:
            return
        self.looking = True
        try:
            for operand in operands:
                self.inspect(operand, 3)
        finally:
            self.looking = False

    def inspect(self, value, depth):
        kind = type(value)
        if kind in (list, tuple, set, frozenset) and depth:
            for element in list(value)[:50]:
                self.inspect(element, depth - 1)
        elif kind is dict and depth:
            for element in list(value.items())[:50]:
                self.inspect(element, depth - 1)
        elif id(kind) not in self.known and self.comes_from_workspace(kind):
            self.probe(value, kind)

    def comes_from_workspace(self, kind):
        for base in kind.__mro__:
            for name in METHODS:
                code = getattr(vars(base).get(name), "__code__", None)
                if code is not None and not self.is_owned(code.co_filename):
                    return True
        return False

    def probe(self, value, kind):
        for name, agrees in (
            ("equal to", lambda: value == Stranger()),
            ("a container of", lambda: Stranger() in value),
            ("less than", lambda: value < Stranger()),
            ("greater than", lambda: value > Stranger()),
        ):
            try:
                lies = agrees() is True
            except Exception:
                continue
            if lies:
                self.findings.append(f"a {kind.__module__}.{kind.__qualname__} claims to be {name} anything")
                return


def install(honesty):
    """Show the operands of every later rewritten assertion, and of unittest's, to `honesty`."""
    import unittest

    from _pytest.assertion import rewrite

    setattr(rewrite, "look_at_operands", honesty.look)  # noqa: B010 - a name of ours in their module
    visit = rewrite.AssertionRewriter.visit_Compare

    def visit_compare(self, comp):
        before = len(self.statements)
        result = visit(self, comp)
        shown = []
        for statement in self.statements[before:]:
            shown.append(statement)
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Assign) and isinstance(value, ast.Compare) and len(value.ops) == 1:
                operands = [node for node in (value.left, *value.comparators) if isinstance(node, ast.Name)]
                target = ast.Attribute(ast.Name("@pytest_ar", ast.Load()), "look_at_operands", ast.Load())
                call = ast.Expr(ast.Call(target, [ast.Name(node.id, ast.Load()) for node in operands], []))
                shown.append(ast.fix_missing_locations(ast.copy_location(call, comp)))
        self.statements[before:] = shown
        return result

    rewrite.AssertionRewriter.visit_Compare = visit_compare
    assert_equal = unittest.TestCase.assertEqual

    def assertEqual(self, first, second, msg=None):
        honesty.look(first, second)
        assert_equal(self, first, second, msg)

    unittest.TestCase.assertEqual = assertEqual
