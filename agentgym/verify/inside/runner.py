"""Runs inside the tested process: pytest with our plugin, prepared before any line of the workspace is imported.

Standard library and the image's pytest only, any Python >= 3.7. Order matters and is the design:
1. read the orders (key, ids) from a pipe and close it; make this process unreadable to others;
2. start pytest on a clean `sys.path`: pytest, its plugins and what the tests import from outside the workspace are
   loaded first, so a `pytest.py`, `unittest.py` or plugin package planted in the workspace is never what gets imported;
3. remember the code that decides verdicts (`integrity.py`), only then let the workspace onto `sys.path`;
4. collect the expected tests among canaries (tests that must fail), stream a signed line per test, check integrity after each;
5. sign a finish line with the findings, leave by `os._exit` so that no exit handler of the tested code runs.

The tested code shares this process, so no single step is proof; together they ask a forgery to find the key without walking
the heap, fool the canaries, keep every remembered function in place, and match the exit code.
"""

import hashlib
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import honesty
from integrity import Integrity

del sys.path[0]

NICE = 19
"""Tests yield to the supervisor: among hundreds of processes of a fork bomb it would not get its turn to end them."""

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


def protect_memory():
    try:
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    except (ImportError, OSError, AttributeError):
        pass  # A Python without ctypes: see supervisor.py.


def make_reporter(key, descriptor, integrity):
    """The only writer of signed lines. Key and counter live in this closure; what signs is built in, so nothing on the way
    from an event to its signature can be patched. Each line carries all findings so far, its own check included.
    """
    os.set_inheritable(descriptor, False)
    counter, owner, findings = [0], os.getpid(), integrity.findings
    sha, write, getpid, check, shown = hashlib.sha256, os.write, os.getpid, integrity.check_stack, repr
    inner, outer = (
        bytes(byte ^ 0x36 for byte in key.ljust(64, b"\0")),
        bytes(byte ^ 0x5C for byte in key.ljust(64, b"\0")),
    )

    def report(event, **fields):
        if getpid() != owner:
            return  # A fork of the tested code ran into a hook: it is not the run.
        check(event)
        fields["event"], fields["tampering"] = event, findings[:50]
        body = shown(fields).encode("utf-8", "backslashreplace")
        mac = sha(outer + sha(inner + b"%d " % counter[0] + body).digest()).hexdigest()
        line = mac.encode() + b" " + body + b"\n"
        counter[0] += 1
        while line:
            line = line[write(descriptor, line) :]

    return report


def plain(value, limit=2000):
    """The end of `str(value)` as exactly a str: a subclass could print itself as anything."""
    return str.join("", [str(value)])[-limit:]


class Plugin:
    """Selects the expected tests, streams their verdicts, and keeps asking whether they can be believed."""

    def __init__(self, orders, report, integrity):
        self.orders, self.report, self.integrity = orders, report, integrity
        self.expected = set(orders["ids"])
        self.canaries, self.canary_results = {}, {}
        self.parts, self.marked_xfail, self.config = {}, set(), None

    def pytest_load_initial_conftests(self, early_config, parser, args):
        for name in self.orders["preload"]:
            if name.split(".")[0] in self.integrity.local:
                continue
            try:
                __import__(name)
            except Exception:
                continue
        self.config = early_config
        self.integrity.take_stock(main_code())
        self.integrity.expect_tests(test_files(self.orders), early_config)
        self.report("open")
        open_workspace(self.orders)

    def pytest_collection_modifyitems(self, session, config, items):
        kept = [item for item in items if item.nodeid in self.expected]
        for item in kept:
            self.integrity.adopt(item)
            if item.get_closest_marker("xfail") is not None:
                self.marked_xfail.add(item.nodeid)
        reorder(kept, self.orders["order"])
        planted = plant_canaries(session)
        self.canaries = {id(item): item for item in planted}
        middle = len(planted) // 2
        items[:] = planted[:middle] + kept + planted[middle:]
        self.report("collected", count=len(kept))

    def pytest_runtest_protocol(self, item, nextitem):
        if id(item) not in self.canaries:
            return None
        from _pytest.runner import runtestprotocol

        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self.canary_results[id(item)] = [r.outcome for r in reports if r.when == "call"]
        return True

    def pytest_runtest_logstart(self, nodeid, location):
        self.parts[nodeid] = []
        self.integrity.check_item(nodeid)
        self.report("start", id=plain(nodeid))

    def pytest_runtest_logreport(self, report):
        self.parts.setdefault(report.nodeid, []).append(report)
        self.integrity.check_hooks(self.config)

    def pytest_runtest_logfinish(self, nodeid, location):
        self.integrity.check_item(nodeid)
        reports = self.parts.pop(nodeid, [])
        problem = next((plain(r.longrepr) for r in reports if r.outcome == "failed"), "")
        self.report("end", id=plain(nodeid), verdict=verdict_of(reports, nodeid in self.marked_xfail), message=problem)

    def pytest_collectreport(self, report):
        if report.outcome == "failed":
            self.report("collect_error", id=plain(report.nodeid), message=plain(report.longrepr))

    def finish(self, code):
        for result in (self.canary_results.get(key) for key in self.canaries):
            if result != ["failed"] and result is not None:
                self.integrity.findings.append(f"a test that must fail ended as {result}")
        self.integrity.check_code()
        self.report("finish", code=code, canaries=len(self.canary_results))


def reorder(items, seed):
    """Files in another order, and in each file the tests; those of a class stay together, as their fixtures would have it."""
    if not seed:
        return
    groups = {}
    for item in items:
        file, _, rest = item.nodeid.partition("::")
        groups.setdefault(file, {}).setdefault(rest.rpartition("::")[0] or rest, []).append(item)
    shuffled = random.Random(seed)
    files = list(groups.values())
    shuffled.shuffle(files)
    items[:] = []
    for blocks in files:
        blocks = list(blocks.values())
        shuffled.shuffle(blocks)
        for block in blocks:
            shuffled.shuffle(block)
            items.extend(block)


def plant_canaries(session):
    """Items of a file with random names and values, outside the workspace, collected by the session's own machinery."""
    import pathlib

    import pytest

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"test_{os.urandom(8).hex()}.py")
    with open(path, "w") as file:
        file.write(CANARIES.format(os.urandom(8).hex(), os.urandom(8).hex()))
    try:
        module = pytest.Module.from_parent(session, path=pathlib.Path(path))
    except (TypeError, AttributeError):
        import py  # what a module is made from before pytest 7

        module = getattr(pytest.Module, "from_parent")(session, fspath=py.path.local(path))  # noqa: B009
    items = []
    for node in module.collect():
        items.extend(node.collect() if isinstance(node, pytest.Class) else [node])
    return items


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
        # An imperative pytest.xfail() comes from whatever code ran, so only a marker that was there at collection counts.
        expected_failure = marked_xfail and all(hasattr(r, "wasxfail") for r in skipped)
        return "passed" if expected_failure else "skipped"
    return "passed" if all(phases.get(phase) for phase in ("setup", "call", "teardown")) else "error"


def test_files(orders):
    """Files that hold expected tests and exist, in order."""
    names = dict.fromkeys(test.split("::")[0] for test in orders["ids"])
    return [name for name in names if os.path.exists(name)]


def main_code():
    """The code of this file's top level: the lowest frame of every honest report."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


def open_workspace(orders):
    """Now, and not before, may the workspace be imported: `sys.path` and environment become what the task asks for.

    Packages that pytest itself needs and that the image's workspace also holds (packaging, iniconfig) are forgotten, so that the
    tests import the workspace's copy.
    """
    local = set(orders["local_names"]) - {"pytest", "_pytest"}
    standard = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
    for name in list(sys.modules):
        top = name.split(".")[0]
        if top in local and top not in standard and top != "__main__":
            del sys.modules[name]
    if orders["python_path"]:
        os.environ["PYTHONPATH"] = orders["python_path"]
    entries = [os.path.abspath(entry) for entry in orders["python_path"].split(os.pathsep) if entry]
    sys.path[:0] = ([os.getcwd()] if orders["cwd_on_path"] else []) + entries


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
        names += [p.name for p in distribution.entry_points if p.group == "pytest11" and p.name not in names]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return [part for name in names for part in ("-p", name)]


def main():
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        orders = json.loads(pipe.read().decode())
    os.nice(NICE)
    protect_memory()
    integrity = Integrity(orders["local_names"], orders["owned_files"], orders["allow_gc"])
    report = make_reporter(bytes.fromhex(orders.pop("key")), int(sys.argv[2]), integrity)
    sys.argv[:] = ["pytest"]
    import pytest

    integrity.take_stock(main_code())
    honesty.install(honesty.Honesty(integrity.known_classes, integrity.is_owned, integrity.findings))
    plugin = Plugin(orders, report, integrity)
    files = test_files(orders)
    options = installed_plugins() + orders["options"]
    integrity.watch()
    # Without a file pytest would run the whole workspace: 5 is its own code for "no tests".
    code = int(pytest.main(options + files, plugins=[plugin])) if files else 5
    plugin.finish(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
