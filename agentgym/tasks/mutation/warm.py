"""Runs inside a sandbox: pytest is loaded once, and every mutant is tried in a fork of it. Standard library and pytest only.

stdin: {"options": pytest's arguments, "limits": [wall seconds, CPU seconds] or null, "memory_mb": int, "mutants": [{"path",
"source"}, or null for the healthy code]}. stdout: one JSON line per mutant, {"outcomes": {test: passed|failed}, "failures":
{test: [the test's statement, what was wrong]}, "limits": those for whatever comes next}, with "outcomes": null where it did not
end. Loading pytest takes half a second and a fork of it a tenth of that, so this is what makes a family of hundreds a matter of
minutes. One bug in ten is an endless loop, and waiting for those would take most of the time: the CPU time that the healthy code
needs says soon, and whatever else the machine does, that a loop is one.

The code under trial is a package's own with one node changed, so a plain result file is enough: what a trial finds is checked
again by validation, with the grader, before anybody is paid for it.
"""

import ast
import gc
import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time

import pytest

MAX_REASON = 300
HEALTHY_LIMITS = [300.0, 300.0]


class Recorder:
    """A pytest plugin that keeps each test's outcome, and of a failure the lines that say what was wrong."""

    def __init__(self):
        self.outcomes, self.failures = {}, {}

    def pytest_runtest_logreport(self, report):
        if report.failed or (report.when == "call" and report.skipped):
            self.outcomes[report.nodeid] = "failed"
            crash = getattr(report.longrepr, "reprcrash", None)
            if crash is not None and crash.message:
                at = statement(report)
                self.failures.setdefault(report.nodeid, [at, reason(crash.message, at)])
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")


def statement(report):
    """The statement of the test itself at which it failed; "" where that cannot be told."""
    try:
        place = report.longrepr.reprtraceback.reprentries[0].reprfileloc
        if os.path.basename(place.path) != report.nodeid.split("::")[0].rsplit("/", 1)[-1]:
            return ""
        with open(place.path, encoding="utf-8") as file:
            text = file.read()
        inner = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.stmt) and node.lineno <= place.lineno <= node.end_lineno
        ]
        found = ast.get_source_segment(text, max(inner, key=lambda node: node.lineno)) or ""
    except (AttributeError, IndexError, OSError, ValueError, SyntaxError):
        return ""
    return "" if found.startswith(("def ", "async def ", "class ", "with ")) else " ".join(found.split())[:MAX_REASON]


def reason(message, at):
    """The first line, and what pytest says of the values in it ("where 3 = f(2)") unless the statement says it too.

    Without addresses, which differ from run to run.
    """
    first, *more = re.sub(r" at 0x[0-9a-fA-F]+", "", message).splitlines()
    where = [line.strip() for line in more if line.lstrip().startswith("+")]
    lines = [first.strip(), *(line for line in where if line.partition(" = ")[2] not in at)]
    return "\n".join(line[:MAX_REASON] for line in lines[:4])


def limits_of(runs):
    """What leaves room over the healthy code: pairs of wall and CPU seconds that its runs took."""
    return [5.0 + 10 * max(wall for wall, _ in runs), 0.5 + 4 * max(cpu for _, cpu in runs)]


def child(options, cpu_limit, memory_mb, out):
    """Never returns."""
    os.setsid()
    signal.setitimer(signal.ITIMER_PROF, cpu_limit)  # its signal kills
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    recorder = Recorder()
    try:
        pytest.main(options, plugins=[recorder])
        with os.fdopen(out, "w") as file:
            json.dump({"outcomes": recorder.outcomes, "failures": recorder.failures}, file)
    finally:
        os._exit(0)


def tried(options, limits, memory_mb):
    """Fork, wait, and kill what is left of its process group. Returns what was found, and the wall and CPU seconds it took."""
    limit, cpu_limit = limits
    started = time.monotonic()
    source, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        child(options, cpu_limit, memory_mb, out)
    os.close(out)
    data, left = b"", limit
    while left > 0:
        ready, _, _ = select.select([source], [], [], left)
        piece = os.read(source, 1 << 20) if ready else b""
        if not piece:
            break
        data += piece
        left = limit - (time.monotonic() - started)
    os.close(source)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # it had no time to make a group of its own
    _, _, usage = os.wait4(pid, 0)
    try:
        found = json.loads(data)
    except ValueError:
        found = {"outcomes": None, "failures": {}}
    return found, (time.monotonic() - started, usage.ru_utime + usage.ru_stime)


def preload():
    """Load pytest and its plugins, by collecting nothing: afterwards a fork has them."""
    stdout = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    with tempfile.TemporaryDirectory() as empty:
        pytest.main(["-q", "-p", "no:cacheprovider", "--collect-only", "--rootdir", empty, empty])
    os.dup2(stdout, 1)
    os.close(stdout)


def main():
    orders = json.load(sys.stdin)
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.getcwd())  # as `python -m pytest` does
    preload()
    gc.freeze()  # forks share these objects' pages as long as no collection touches them
    limits, healthy_runs = orders["limits"] or HEALTHY_LIMITS, []
    for mutant in orders["mutants"]:
        healthy = None
        if mutant:
            with open(mutant["path"], "rb") as file:
                healthy = file.read()
            with open(mutant["path"], "w", encoding="utf-8", newline="") as file:
                file.write(mutant["source"])
        try:
            result, took = tried(orders["options"], limits, orders["memory_mb"])
        finally:
            if healthy is not None:
                with open(mutant["path"], "wb") as file:
                    file.write(healthy)
        if not mutant:
            healthy_runs.append(took)
            limits = limits_of(healthy_runs)
        print(json.dumps({**result, "limits": limits}), flush=True)


if __name__ == "__main__":
    main()
