"""Judge a task under the `harbor` CLI: lay the hidden tests over the workdir, run them, write the reward. Standard
library only.

A task copies this file to `tests/harbor_verify.py`, and its `tests/test.sh` calls it; agentgym's own grader does not
use it (it grades a diff in a fresh sandbox). Both read the same `tests/expected.json` and mean the same by "solved":
every expected test was reported, and passed.

    python3 harbor_verify.py --hidden TREE --expected FILE --reward FILE --owned GLOB [--owned GLOB ...] -- COMMAND ...
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PLUGIN = """
import json, os

outcomes = {}

def pytest_runtest_logreport(report):
    bad = report.failed or (report.when == "call" and report.skipped)
    if bad:
        outcomes[report.nodeid] = "failed"
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")

def pytest_sessionfinish(session):
    with open(os.environ["HARBOR_VERIFY_REPORT"], "w") as out:
        json.dump(outcomes, out)
"""


def owned_by(glob):
    """The glob as a regular expression; `**` crosses folders, `*` does not."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    table = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(table.get(piece, re.escape(piece)) for piece in pieces))


def lay(hidden, workdir, globs):
    """Replace every test-owned file of the workdir by the hidden tree's."""
    patterns = [owned_by(glob) for glob in globs]
    for path in list(workdir.rglob("*")):
        name = path.relative_to(workdir).as_posix()
        if not name.startswith(".git/") and not path.is_dir() and any(pattern.fullmatch(name) for pattern in patterns):
            path.unlink()
    for path in hidden.rglob("*"):
        name = path.relative_to(hidden).as_posix()
        if path.is_file() and any(pattern.fullmatch(name) for pattern in patterns):
            (workdir / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(path), str(workdir / name))


def run(command, files):
    """Outcome of every test that the command reported."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "harbor_verify_plugin.py").write_text(PLUGIN)
        report = Path(scratch, "report.json")
        paths = [scratch] + [path for path in [os.environ.get("PYTHONPATH")] if path]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), HARBOR_VERIFY_REPORT=str(report))
        subprocess.run([*command, "-p", "harbor_verify_plugin", *files], env=environment, stdin=subprocess.DEVNULL)
        return json.loads(report.read_text()) if report.exists() else {}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hidden", type=Path, required=True)
    options.add_argument("--expected", type=Path, required=True)
    options.add_argument("--reward", type=Path, required=True)
    options.add_argument("--owned", action="append", required=True)
    options.add_argument("command", nargs="+")
    chosen = options.parse_args()
    lists = json.loads(chosen.expected.read_text(encoding="utf-8"))
    expected = lists["fail_to_pass"] + lists["pass_to_pass"]
    lay(chosen.hidden, Path.cwd(), chosen.owned)
    outcomes = run(chosen.command, sorted({test.split("::")[0] for test in expected}))
    failed = [test for test in expected if outcomes.get(test) != "passed"]
    for test in failed:
        print(outcomes.get(test, "missing"), test)
    print(f"{len(expected) - len(failed)} of {len(expected)} expected tests passed")
    chosen.reward.parent.mkdir(parents=True, exist_ok=True)
    chosen.reward.write_text(f"{int(not failed)}\n")


if __name__ == "__main__":
    sys.exit(main())
