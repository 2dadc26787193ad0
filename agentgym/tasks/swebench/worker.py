"""Runs in the environment that has `swebench`: answers one JSON line per JSON line it is sent.

    {"op": "version"}                                     the packages' versions
    {"op": "spec", "benchmark", "row", "sources"}         how the row's environment is made and its tests are run
    {"op": "read", "parser", "log", "fail_to_pass", ...}  what a log says of the expected tests

Logs were written by the code under test, so reading one may take for ever: the client ends a worker that does not answer.
Everything that the packages would ask of the git host (requirement files at some commit) is answered from a clone in
`sources`, so this never needs that host.
"""

# pyright: reportMissingImports=false, reportOptionalCall=false
# (its imports are installed elsewhere)

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

GIT_COMMANDS = ("git ", "source ", "conda ", "cd ")
RAW_HOST = "https://raw.githubusercontent.com/"


class Refused(Exception):
    """The packages know no way to run this row; the message says what is missing."""


class Clones:
    """Files of repositories as `requests.get` would return them, read from clones below one directory."""

    def __init__(self, sources):
        self.sources = Path(sources) if sources else None

    def directory(self, repo):
        owner, _, name = repo.partition("/")
        for place in (
            f"{owner}/{name}",
            f"{owner}__{name}",
            name,
            f"{owner}/{name}.git",
            f"{owner}__{name}.git",
            f"{name}.git",
        ):
            if self.sources is not None and (self.sources / place).is_dir():
                return self.sources / place
        raise Refused(f"no clone of {repo} in {self.sources}: it would be {owner}/{name} or {owner}__{name}")

    def get(self, url, **_):
        owner, name, commit, path = url.removeprefix(RAW_HOST).split("/", 3)
        command = ["git", "-C", str(self.directory(f"{owner}/{name}")), "show", f"{commit}:{os.path.normpath(path)}"]
        done = subprocess.run(command, capture_output=True, check=False)
        return Answer(200 if done.returncode == 0 else 404, done.stdout.decode("utf-8", "replace"))


class Answer:
    def __init__(self, status_code, text):
        self.status_code, self.text = status_code, text


def spec(benchmark, row, sources):
    """Of the row: python, packages, set-up and test commands, and the name of the parser of its log."""
    if benchmark == "swe-smith":
        return _swesmith(row)
    if benchmark == "swe-rebench":
        return _own_spec(row, _mapping(row.get("install_config"), "install_config"))
    if benchmark == "swe-bench-live":
        return _live(row)
    return _swebench(row, sources)


def _swebench(row, sources):
    from swebench.harness import constants
    from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
    from swebench.harness.test_spec import create_scripts, python

    repo, version = row["repo"], str(row.get("version") or "")
    known = constants.MAP_REPO_VERSION_TO_SPECS.get(repo, {})
    release = importlib.metadata.version("swebench")
    if version not in known or repo not in MAP_REPO_TO_PARSER:
        what = f"{repo} {version or '(no version)'}"
        raise Refused(f"swebench {release} has no specification for {what}")
    specs = known[version]
    script = create_scripts.make_eval_script_list(
        row, specs, "testbed", "/testbed", row["base_commit"], row.get("test_patch") or ""
    )
    begin, end = (script.index(f": '{mark}'") for mark in (constants.START_TEST_OUTPUT, constants.END_TEST_OUTPUT))
    found = {
        "python": str(specs.get("python", "")),
        "before_tests": [line for line in script[:begin] if not line.startswith((*GIT_COMMANDS, "echo "))],
        "test": script[begin + 1 : end],
        "parser": f"swebench:{repo}",
    }
    if sources:
        if constants.MAP_REPO_TO_EXT[repo] != "py":
            raise Refused(f"an environment can be built for Python repositories only; {repo} needs its published image")
        python.requests = Clones(sources)
        found.update(_environment(row, specs, python))
    return found


def _environment(row, specs, python):
    """What to install, in swebench's own order: packages, pip_packages, the repository's pre_install and install."""
    packages = specs.get("packages", "")
    if packages == "environment.yml":
        raise Refused("its environment is a conda environment.yml; use the published image")
    try:
        requirements = python.get_requirements(row) if packages == "requirements.txt" else ""
    except ValueError as error:
        raise Refused(str(error)) from error
    return {
        "packages": "" if packages == "requirements.txt" else packages,
        "requirements": requirements,
        "pip_packages": list(specs.get("pip_packages", [])),
        "set_up": [*_lines(specs.get("pre_install")), *_lines(specs.get("install"))],
    }


def _own_spec(row, specs):
    """SWE-rebench's rows carry a specification in swebench's own schema, and name the parser."""
    parser = _parser_name(specs.get("log_parser"))
    command = specs.get("test_cmd")
    if not command:
        raise Refused("install_config has no test_cmd")
    from swebench.harness.test_spec import python

    tests = _lines(command)
    directives = python.get_test_directives({"repo": row["repo"], "test_patch": row.get("test_patch") or ""})
    return {
        "python": str(specs.get("python") or ""),
        "before_tests": [*_lines(specs.get("eval_commands")), *_lines(specs.get("install"))],
        "test": [*tests[:-1], " ".join([tests[-1], *directives])],
        "parser": parser,
        "packages": ""
        if str(specs.get("packages")) in ("requirements.txt", "environment.yml")
        else specs.get("packages") or "",
        "requirements": row.get("requirements") or "",
        "pip_packages": _lines(specs.get("pip_packages")),
        "set_up": [*_lines(specs.get("pre_install")), *_lines(specs.get("install"))],
    }


def _live(row):
    """SWE-bench-Live's rows carry their commands and name the parser; a parser given as source is never run."""
    commands = _lines(row.get("test_cmds"))
    if not commands:
        raise Refused("the row has no test_cmds")
    return {
        "python": "",
        "before_tests": _lines(row.get("rebuild_cmds")),
        "test": [*commands, *_lines(row.get("print_cmds"))],
        "parser": _parser_name(row.get("log_parser")),
    }


def _swesmith(row):
    from swesmith.profiles import registry

    try:
        profile = registry.get_from_inst(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(f"swesmith {importlib.metadata.version('swesmith')} has no profile for {row['repo']}") from error
    command, files = profile.get_test_cmd(row)
    return {
        "python": str(getattr(profile, "python_version", "") or ""),
        "before_tests": [],
        "test": [command],
        "test_files": [str(file) for file in files],
        "parser": f"swesmith:{row['repo']}",
        "set_up": [line for line in profile.install_cmds or [] if not line.startswith("git ")],
    }


def read(parser, log, fail_to_pass, pass_to_pass):
    """The verdict of every expected test by the package's own rules: which states count as passed is its business."""
    from swebench.harness import grading

    states = _states(parser, log)
    only_failures = parser.removeprefix("swebench:") in getattr(grading, "FAIL_ONLY_REPOS", ())
    kind = grading.EvalType.FAIL_ONLY if only_failures else grading.EvalType.PASS_AND_FAIL
    expected = {"FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": pass_to_pass}
    report = grading.get_eval_tests_report(states, expected, eval_type=kind)
    good = {test for group in expected for test in report[group]["success"]}
    words = {"FAILED": "failed", "ERROR": "error", "SKIPPED": "skipped"}
    return {
        "verdicts": {
            test: "passed" if test in good else words.get(states.get(test), "missing")
            for test in (*fail_to_pass, *pass_to_pass)
        },
        "resolved": grading.get_resolution_status(report) == grading.ResolvedStatus.FULL.value,
        "read": len(states),
    }


def _states(parser, log):
    package, _, name = parser.partition(":")
    if package == "swesmith":
        from swesmith.profiles import registry

        return registry.get(name).log_parser(log)
    from types import SimpleNamespace

    from swebench.harness import log_parsers

    if "/" in name:
        return log_parsers.MAP_REPO_TO_PARSER[name](log, SimpleNamespace(repo=name, version=""))
    return _function(name)(log, SimpleNamespace(repo="", version=""))


def _parser_name(name):
    if not isinstance(name, str) or not name.strip():
        raise Refused("the row names no log_parser")
    if not name.isidentifier():
        raise Refused("its log_parser is source code, which is never run")
    full = name if name.startswith("parse_log_") else f"parse_log_{name}"
    if _function(full) is None:
        raise Refused(f"swebench {importlib.metadata.version('swebench')} has no parser called {full}")
    return f"swebench:{full}"


def _function(name):
    from swebench.harness import log_parsers

    languages = ("python", "javascript", "java", "go", "rust", "ruby", "php", "c")
    modules = [getattr(log_parsers, language, None) for language in languages]
    return next((getattr(module, name) for module in modules if hasattr(module, name)), None)


def _lines(value):
    """Commands, where a row or a specification has one, several, or none."""
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else [str(line) for line in value]


def _mapping(value, what):
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise Refused(f"the row has no {what}")
    return value


def answer(request):
    operation = request.pop("op")
    if operation == "version":
        versions = {}
        for name in ("swebench", "swesmith"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[name] = importlib.metadata.version(name)
        return versions
    return {"spec": spec, "read": read}[operation](**request)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print is no answer
    for line in sys.stdin:
        try:
            reply = {"ok": answer(json.loads(line))}
        except Refused as refusal:
            reply = {"refused": str(refusal)}
        except ImportError as error:
            reply = {"refused": f"the benchmark's package is missing: {error}"}
        except Exception as error:
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
