"""Runs inside the tested process: pytest with our plugin, prepared before any line of the workspace is imported.

Standard library and the image's pytest only, one file, any Python >= 3.7. Order matters and is the design:
1. read the orders (key, ids) from a pipe and close it; make this process unreadable to others;
2. start pytest on a clean `sys.path`: pytest, its plugins and what the tests import from outside the workspace are
   loaded first, so a `pytest.py`, `unittest.py` or plugin package planted in the workspace is never what gets
   imported;
3. remember the code of pytest and unittest, plant canaries (tests that must fail), only then let the workspace onto
   `sys.path`;
4. stream a signed line per test; at the end compare the remembered code, judge the canaries, sign a finish line,
   leave by `os._exit` so that no exit handler of the tested code runs.

The tested code shares this process, so no single step is proof; together they make a forgery need to know the key
(held only in a closure; walking the heap for it is itself reported), fool the canaries, restore every patch and match
the exit code.
"""

import hashlib
import hmac
import json
import os
import sys
import types


def read_orders():
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        return json.loads(pipe.read().decode())


def protect_memory():
    try:
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    except (ImportError, OSError, AttributeError):
        pass  # A Python without ctypes: see supervisor.py.


def make_reporter(key, descriptor):
    """The only writer of signed lines; key, counter and functions live in this closure."""
    os.set_inheritable(descriptor, False)
    state = [0, os.getpid()]
    new, digest, dumps, write, getpid = hmac.new, hashlib.sha256, json.dumps, os.write, os.getpid

    def report(event, **fields):
        if getpid() != state[1]:
            return  # A fork of the tested code ran into a hook: it is not the run.
        body = dumps(dict(fields, event=event)).encode("utf-8", "surrogatepass")
        line = new(key, b"%d " % state[0] + body, digest).hexdigest().encode() + b" " + body + b"\n"
        state[0] += 1
        view = memoryview(line)
        while view:
            view = view[write(descriptor, view) :]

    return report


def functions_of(module):
    """(owner, name, function) for the functions and methods a module defines."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            yield module, name, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, member in list(vars(value).items()):
                member = getattr(member, "__func__", member)
                if isinstance(member, types.FunctionType):
                    yield value, attribute, member


class Integrity:
    """Remembers the code that decides verdicts, and says what of it was replaced by code from outside the
    installation.
    """

    PREFIXES = ("_pytest.", "pluggy.", "unittest.")

    def __init__(self):
        self.trusted = tuple(
            {os.path.realpath(p) + os.sep for p in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))}
        )
        self.trusted += tuple({sys.prefix + os.sep, sys.base_prefix + os.sep})
        self.remembered = []
        self.codes = {}

    def remember(self):
        for name, module in list(sys.modules.items()):
            if name.startswith(self.PREFIXES) and module is not None:
                for owner, attribute, function in functions_of(module):
                    self.remembered.append((owner, attribute, function, function.__code__))
                    self.codes[function.__code__] = True

    def is_foreign(self, value):
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is None:
            return True
        filename = code.co_filename
        return not (filename.startswith(self.trusted) or filename == __file__)

    def violations(self):
        found = []
        for owner, attribute, function, code in self.remembered:
            now = vars(owner).get(attribute)
            now = getattr(now, "__func__", now)
            if (now is not function and self.is_foreign(now)) or (function.__code__ is not code):
                found.append(
                    "{}.{} was replaced".format(getattr(owner, "__qualname__", getattr(owner, "__name__", "?")), attribute)
                )
        return found


CANARIES = """
import unittest
import pytest

def test_assert_{0}():
    left, right = "{0}", "{1}"
    assert left == right

def test_raise_{0}():
    raise RuntimeError("{1}")

def test_raises_{0}():
    with pytest.raises(ValueError):
        pass

class Test{0}(unittest.TestCase):
    def test_equal_{0}(self):
        self.assertEqual("{0}", "{1}")
    def test_true_{0}(self):
        self.assertTrue("{0}" == "{1}")
"""


class Plugin:
    """Selects the expected tests, streams their verdicts, and watches for tampering."""

    def __init__(self, orders, report):
        self.expected = set(orders["ids"])
        self.orders, self.report = orders, report
        self.integrity = Integrity()
        self.canaries, self.canary_results = {}, {}
        self.parts, self.marked_xfail, self.tampering = {}, set(), []

    def pytest_load_initial_conftests(self, early_config, parser, args):
        for name in self.orders["preload"]:
            try:
                __import__(name)
            except Exception:
                continue  # Not installed, or not importable here: the test that needs it will say so.
        self.integrity.remember()
        self.report("open")
        open_workspace(self.orders)

    def pytest_collection_modifyitems(self, session, config, items):
        kept = [item for item in items if item.nodeid in self.expected]
        for item in kept:
            if item.get_closest_marker("xfail") is not None:
                self.marked_xfail.add(item.nodeid)
        planted = self.plant_canaries(session)
        middle = len(planted) // 2
        items[:] = planted[:middle] + kept + planted[middle:]
        self.report("collected", count=len(kept))

    def plant_canaries(self, session):
        import pytest

        one, two = os.urandom(8).hex(), os.urandom(8).hex()
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"test_{os.urandom(8).hex()}.py")
        with open(path, "w") as file:
            file.write(CANARIES.format(one, two))
        try:
            import pathlib

            module = pytest.Module.from_parent(session, path=pathlib.Path(path))
        except (TypeError, AttributeError):
            import py

            module = pytest.Module.from_parent(session, fspath=py.path.local(path))
        items = []
        for node in module.collect():
            items.extend(node.collect() if isinstance(node, pytest.Class) else [node])
        self.canaries = {id(item): item for item in items}
        return items

    def pytest_runtest_protocol(self, item, nextitem):
        if id(item) not in self.canaries:
            return None
        from _pytest.runner import runtestprotocol

        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self.canary_results[id(item)] = [r.outcome for r in reports if r.when == "call"]
        return True

    def pytest_runtest_logstart(self, nodeid, location):
        self.parts[nodeid] = []
        self.report("start", id=nodeid)

    def pytest_runtest_logreport(self, report):
        self.parts.setdefault(report.nodeid, []).append(report)

    def pytest_runtest_logfinish(self, nodeid, location):
        reports = self.parts.pop(nodeid, [])
        problem = next((str(r.longrepr)[-2000:] for r in reports if r.outcome == "failed"), "")
        self.report("end", id=nodeid, verdict=verdict_of(reports, nodeid in self.marked_xfail), message=problem)

    def pytest_collectreport(self, report):
        if report.outcome == "failed":
            self.report("collect_error", id=report.nodeid, message=str(report.longrepr)[-2000:])

    def finish(self, code):
        for result in (self.canary_results.get(key) for key in self.canaries):
            if result != ["failed"]:
                self.tampering.append(f"a test that must fail ended as {result}")
        self.tampering += self.integrity.violations()[:20]
        self.report("finish", code=code, canaries=len(self.canaries), tampering=self.tampering)


def verdict_of(reports, marked_xfail):
    """The verdict of one test from its setup, call and teardown reports; the worst counts."""
    phases = {}
    for report in reports:
        if report.outcome != "rerun":
            phases.setdefault(report.when, []).append(report)
    for phase in ("setup", "teardown"):
        if any(r.outcome == "failed" for r in phases.get(phase, [])):
            return "error"
    everything = [r for rs in phases.values() for r in rs]
    if any(r.outcome == "failed" for r in everything):
        return "failed"
    skipped = [r for r in everything if r.outcome == "skipped"]
    if skipped:
        expected_failure = marked_xfail and all(hasattr(r, "wasxfail") for r in skipped)
        return "passed" if expected_failure else "skipped"
    complete = all(len(phases.get(phase, [])) >= 1 for phase in ("setup", "call", "teardown"))
    return "passed" if complete and phases["call"] else "error"


def open_workspace(orders):
    """Now, and not before, may the workspace be imported: `sys.path` and the environment become what the task asks
    for.
    """
    local = set(orders["local_names"]) - {"pytest", "_pytest"}
    standard = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
    for name in list(sys.modules):
        top = name.split(".")[0]
        if top in local and top not in standard and top != "__main__":
            del sys.modules[name]
    path = [entry for entry in orders["python_path"].split(os.pathsep) if entry]
    if orders["python_path"]:
        os.environ["PYTHONPATH"] = orders["python_path"]
    entries = ([os.getcwd()] if orders["cwd_on_path"] else []) + [os.path.abspath(entry) for entry in path]
    sys.path[:0] = entries


def watch_heap_walks(plugin):
    """Report (never prevent) attempts to find the key or to swap code: events the tested code cannot unhook."""
    if not hasattr(sys, "addaudithook"):
        return
    watched = set() if plugin.orders["allow_gc"] else {"gc.get_objects", "gc.get_referrers", "gc.get_referents"}
    tampering, codes = plugin.tampering, plugin.integrity.codes

    def hook(event, arguments):
        if event in watched:
            tampering.append(f"called {event}")
        elif (
            event == "object.__setattr__"
            and arguments[1] == "__code__"
            and getattr(arguments[0], "__code__", None) in codes
        ):
            tampering.append("replaced the code of {}".format(getattr(arguments[0], "__qualname__", "?")))
        elif (
            event == "open"
            and isinstance(arguments[0], str)
            and arguments[0].startswith("/proc/")
            and arguments[0].endswith("/mem")
        ):
            tampering.append(f"opened {arguments[0]}")

    sys.addaudithook(hook)


def installed_plugins():
    """`-p` options for the plugins pytest would load by itself, found before the workspace can offer its own."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return []
    try:
        from importlib import metadata
    except ImportError:
        return []
    names = []
    for distribution in metadata.distributions():
        names += [
            point.name for point in distribution.entry_points if point.group == "pytest11" and point.name not in names
        ]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return [part for name in names for part in ("-p", name)]


def main():
    orders = read_orders()
    protect_memory()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    report = make_reporter(bytes.fromhex(orders.pop("key")), int(sys.argv[2]))
    sys.argv[:] = ["pytest"]
    import pytest

    plugin = Plugin(orders, report)
    watch_heap_walks(plugin)
    files = [name for name in dict.fromkeys(test.split("::")[0] for test in orders["ids"]) if os.path.exists(name)]
    if not files:
        report("finish", code=5, canaries=0, tampering=[])  # pytest without arguments would run the whole workspace.
        os._exit(5)
    code = pytest.main(installed_plugins() + orders["options"] + files, plugins=[plugin])
    plugin.finish(int(code))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


if __name__ == "__main__":
    main()
