"""Is the process that reports verdicts still the one that was started? Sent along with `runner.py`; standard library only.

The tested code shares the interpreter and can reach every object in it. So the runner remembers, before any file of the
workspace could be imported, the code that decides verdicts, and compares it while and after the tests run:
- functions of pytest, pluggy and unittest: none replaced or recompiled, no attribute added to their classes;
- hook implementations: all from code known then, or from the tests' own conftest files;
- test functions: the very code that the hidden files compile to, and the same at the end as when they were collected;
- the call stack of every report: known code only, down to the runner's own main program;
- audit events (which cannot be unhooked): heap walks, swapped `__code__`, reads of a process's memory.

Each finding is a sentence; one is enough to give the run no reward.
"""

import builtins
import os
import sys
import types

DECIDING = ("_pytest.", "pluggy.", "unittest.", "__main__", "integrity", "honesty", "ast", "operator")
BUILTINS = (
    "all", "any", "callable", "dict", "getattr", "hasattr", "id", "int", "isinstance", "iter", "len", "list", "max",
    "next", "range", "repr", "set", "sorted", "str", "tuple", "type", "vars", "__build_class__", "__import__",
)  # fmt: skip
HOOKS = (
    "pytest_runtest_protocol",
    "pytest_runtest_logstart",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_runtest_logfinish",
    "pytest_pyfunc_call",
    "pytest_runtestloop",
)
QUIET_ATTRIBUTES = {"__doc__", "__annotations__", "__annotate__", "__abstractmethods__", "_abc_impl", "__weakref__"}


FUNCTION = types.FunctionType


def functions_of(module):
    """(owner, name, function) for the functions and methods that a module defines. Run over all of pytest, so it is quick."""
    ours = module.__name__
    for name, value in list(vars(module).items()):
        if type(value) is FUNCTION:
            if value.__module__ == ours:
                yield module, name, value
        elif isinstance(value, type) and value.__module__ == ours:
            for attribute, member in list(vars(value).items()):
                if type(member) is FUNCTION:
                    yield value, attribute, member
                    continue
                if isinstance(member, (classmethod, staticmethod)):
                    member = (
                        member.__func__
                    )  # Asking any other member could run its code: six resolves modules that way.
                if isinstance(member, property):
                    member = member.fget
                if type(member) is FUNCTION:
                    yield value, attribute, member


def nested(code, into):
    """Collect `code` and every code object among its constants."""
    into.append(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            nested(constant, into)


def code_of(value):
    """The code that calling `value` runs, through methods, partials and `functools.wraps`; None where it is not Python."""
    for _ in range(20):
        if isinstance(value, types.MethodType):
            value = value.__func__
        elif hasattr(value, "__wrapped__"):
            value = getattr(value, "__wrapped__", None)
        elif type(value).__name__ == "partial":
            value = getattr(value, "func", None)
        else:
            break
    return getattr(value, "__code__", None)


class Integrity:
    """What was known before the workspace could be imported, and the findings since."""

    def __init__(self, local_names, owned_files, allow_heap_walks):
        self.local = set(local_names) - {"pytest", "_pytest"}
        self.owned = {os.path.abspath(path) for path in owned_files}
        self.allow_heap_walks = allow_heap_walks
        self.known, self.kept_alive, self.decisive = set(), [], []
        self.known_classes, self.classes, self.test_code, self.items = set(), {}, {}, {}
        self.builtins = tuple((name, getattr(builtins, name)) for name in BUILTINS)
        self.main_code = None
        self.findings = []

    def take_stock(self, main_code):
        """All code loaded so far is known. Called twice, as pytest patches itself while it starts and undoes it at the end."""
        self.main_code = main_code
        nested(main_code, self.kept_alive)
        self.decisive = []
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or name.split(".")[0] in self.local:
                continue
            self.known_classes.update(id(value) for value in list(vars(module).values()) if isinstance(value, type))
            for owner, attribute, function in functions_of(module):
                if id(function.__code__) not in self.known:
                    nested(function.__code__, self.kept_alive)
                if name.startswith(DECIDING):
                    self.decisive.append((owner, attribute, function, function.__code__))
                    if isinstance(owner, type):
                        self.classes[owner] = set(vars(owner))
        self.known.update(id(code) for code in self.kept_alive)

    def expect_tests(self, test_files, config):
        """Compile the hidden test files as pytest would, while nothing can interfere."""
        for path in test_files:
            self.test_code[os.path.abspath(path)] = compiled(path, config)

    def watch(self):
        """Start listening to audit events; they can be neither removed nor missed."""
        if not hasattr(sys, "addaudithook"):
            return
        heap = set() if self.allow_heap_walks else {"gc.get_objects", "gc.get_referrers", "gc.get_referents"}
        findings, known, test_code = self.findings, self.known, self.test_code

        def hook(event, arguments):
            if event in heap:
                findings.append(f"{event} was called")
            elif event == "object.__setattr__" and arguments[1] == "__code__":
                code = getattr(arguments[0], "__code__", None)
                if id(code) in known or getattr(code, "co_filename", "") in test_code:
                    findings.append(f"the code of {getattr(arguments[0], '__qualname__', '?')} was swapped")
            elif event == "open" and isinstance(arguments[0], str) and arguments[0].endswith("/mem"):
                findings.append(f"{arguments[0]} was opened")

        sys.addaudithook(hook)

    def check_stack(self, event):
        """Every frame below a report must be known code, the lowest one the runner's main program, and builtins theirs."""
        for name, value in self.builtins:
            if vars(builtins)[name] is not value:
                self.findings.append(f"builtins.{name} was replaced when {event} was reported")
        frame, lowest = sys._getframe(1), None
        while frame is not None:
            if id(frame.f_code) not in self.known:
                self.findings.append(f"{event} was reported from {frame.f_code.co_filename}:{frame.f_code.co_name}")
                return
            lowest, frame = frame.f_code, frame.f_back
        if lowest is not self.main_code:
            self.findings.append(f"{event} was reported from another thread")

    def is_owned(self, path):
        return os.path.abspath(path) in self.owned or os.path.abspath(path) in self.test_code

    def check_hooks(self, config):
        for name in HOOKS:
            caller = getattr(config.hook, name)
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                code = code_of(implementation.function)
                if code is None or (id(code) not in self.known and not self.is_owned(code.co_filename)):
                    where = getattr(code, "co_filename", implementation.plugin_name)
                    self.findings.append(f"{name} is implemented by {where}")

    def adopt(self, item):
        """A collected test: its function must be what its file compiles to, where that file defines one of its name."""
        code = code_of(getattr(item, "obj", None))
        trusted = self.test_code.get(os.path.abspath(str(getattr(item, "path", None) or item.fspath)), [])
        if code is not None and code.co_name in {c.co_name for c in trusted} and code not in trusted:
            self.findings.append(f"{item.nodeid} is not the function that its file defines")
        self.items[item.nodeid] = (item, code)

    def check_item(self, nodeid):
        """The test is the one that was collected, and nothing stands in for its run."""
        item, code = self.items.get(nodeid, (None, None))
        if item is None:
            return
        now = code_of(getattr(item, "obj", None))
        if now is not code and now != code and id(now) not in self.known:
            self.findings.append(f"the function of {nodeid} was replaced")
        for name in ("runtest", "setup", "ihook"):
            stand_in = vars(item).get(name)
            if isinstance(stand_in, types.FunctionType) and id(stand_in.__code__) not in self.known:
                self.findings.append(f"{name} of {nodeid} was replaced")

    def check_code(self):
        for owner, attribute, function, code in self.decisive:
            if attribute not in vars(owner):
                continue  # pytest undoes patches of its own when a session ends.
            now = vars(owner)[attribute]
            now = getattr(now, "__func__", now)
            now = now.fget if isinstance(now, property) else now
            foreign = id(getattr(now, "__code__", None)) not in self.known
            if (now is not function and foreign) or function.__code__ is not code:
                self.findings.append(f"{getattr(owner, '__qualname__', owner)}.{attribute} was replaced")
        for owner, names in self.classes.items():
            for name in set(vars(owner)) - names - QUIET_ATTRIBUTES:
                value = vars(owner)[name]
                acts = callable(value) or hasattr(value, "__get__")
                if acts and id(code_of(value)) not in self.known:
                    self.findings.append(f"{owner.__qualname__}.{name} was added")


def compiled(path, config):
    """All code objects of a test file, with and without pytest's assertion rewriting."""
    codes = []
    try:
        with open(path, "rb") as file:
            nested(compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True), codes)
        from _pytest.assertion.rewrite import _rewrite_test

        try:
            import pathlib

            nested(_rewrite_test(pathlib.Path(path).absolute(), config)[1], codes)
        except (TypeError, AttributeError):
            return []  # A pytest that rewrites through another interface: nothing to compare with.
    except (OSError, SyntaxError, ValueError, ImportError):
        return []
    return codes
