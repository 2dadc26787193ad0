"""How a command ends: what is said on stderr, the exit code, and the JSON document of a failure.

Exit codes: 0 ok, 1 the work failed, 2 usage, 3 environment not usable, 128 + n ended by signal n (130 for Ctrl-C).

With `--json`, stdout holds exactly one document whatever happens: the command's own where it got that far (a failed
`store check` still lists its faults), else `{"error": {"type", "message", "hint"}, "exit_code"}`. SIGTERM and SIGHUP
end a command as Ctrl-C does, so that a scheduler that stops a job leaves no sandbox behind either.
"""

from __future__ import annotations

import errno
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from rich.markup import escape

from agentgym.cli import output
from agentgym.errors import AgentGymError, InputError, MachineError

_NO_PLACE = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space", errno.EROFS: "name another place"}
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)
_NO_SUCH_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)

_received: list[int] = []


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed command says. type: name of the error class."""

    type: str
    message: str
    hint: str | None
    exit_code: int


def run(command: Callable[[], object], *, as_json: bool, verbose: bool) -> int:
    """Run `command` and return the exit code. Anything that is not understood as a failure of the work is a bug and raised.

    verbose: show the traceback of an operating system's refusal too.
    """
    _take_signals()
    try:
        return _ending(command, as_json, verbose)
    except KeyboardInterrupt:  # of the command, or in the moment between its end and the next lines
        return _interrupted(as_json)
    finally:  # the interpreter's shutdown takes a while, and a Ctrl-C in it would replace the code of a command that is done
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is _as_interrupt:
                signal.signal(number, signal.SIG_DFL)


def _ending(command: Callable[[], object], as_json: bool, verbose: bool) -> int:
    try:
        command()
    except SystemExit as end:  # how the option parser ends; a usage error (shown already) is its context
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code == 130:
            return _interrupted(as_json)
        if code and as_json:
            told = getattr(end.__context__, "format_message", lambda: "see stderr")()
            _document(Failure("UsageError", told, None, code))
        return code
    except (AgentGymError, OSError, ExceptionGroup) as error:
        failure = explain(error)
        if failure is None or (verbose and not isinstance(error, AgentGymError)):
            raise
        hint = f"\n  → {failure.hint}" if failure.hint else ""
        text = f"[bold red]error:[/] {escape(failure.message + hint)}"
        output.stderr.print(text, highlight=False, soft_wrap=True)
        if as_json:
            _document(failure)
        return failure.exit_code
    return 0


def explain(error: BaseException) -> Failure | None:
    """The failure of the work behind an exception, or None where it is a bug of ours."""
    if isinstance(error, BaseExceptionGroup):
        parts = [explain(part) for part in error.exceptions]
        return parts[0] if all(parts) else None
    if isinstance(error, AgentGymError):
        return Failure(type(error).__name__, str(error.args[0]), error.hint, error.exit_code)
    if isinstance(error, OSError):
        return _refused_by_the_system(error)
    return None


def _refused_by_the_system(error: OSError) -> Failure | None:
    place = f"{error.filename}: " if error.filename is not None else ""
    message = f"{place}{error.strerror}"
    if error.errno in _NO_PLACE:
        hint = f"{_NO_PLACE[error.errno]} and run the command again; what was finished before is kept"
        return Failure("DiskFull", message, hint, MachineError.exit_code)
    if error.filename is None:
        return None
    if error.errno in _NOT_ALLOWED:
        return Failure("PermissionError", message, "check its owner and mode", MachineError.exit_code)
    if error.errno in _NO_SUCH_PLACE:
        return Failure("FileNotFoundError", message, None, InputError.exit_code)
    return None


def _interrupted(as_json: bool) -> int:
    code = 128 + (_received[-1] if _received else signal.SIGINT)
    output.stderr.print("interrupted")
    if as_json:
        _document(Failure("Interrupted", "interrupted", None, code))
    return code


def _document(failure: Failure) -> None:
    if output.emitted():
        return
    error = {"type": failure.type, "message": failure.message, "hint": failure.hint}
    json.dump({"error": error, "exit_code": failure.exit_code}, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()


def _take_signals() -> None:
    # A shell starts background jobs with SIGINT ignored; asyncio then hears no signal at all, SIGTERM by way of it included.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores SIGHUP, and stays obeyed
            signal.signal(number, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    signal.raise_signal(signal.SIGINT)  # whoever handles Ctrl-C at this moment, asyncio or Python, handles this
