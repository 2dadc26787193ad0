"""The agent that runs inside a sandbox: a few lines of POSIX shell, sent to a plain `/bin/sh` over its stdin.

Nothing is installed and nothing but `/bin/sh` is needed; `setsid` and `bash` are used where they are. The agent keeps one
*standby* ready: a fresh shell in a session of its own, already started, waiting for one request line on the same stdin.
It evaluates the line and ends; the agent reports how and starts the next. So a command costs no fork and no exec between
asking and answering, runs in a shell of its own as under `bash -c`, and is never a background child (which POSIX shells
make ignore SIGINT). Killing is a request too, made of builtins only: it needs no process slot, so it works under a fork bomb.

Agent, standby and command share one stdout. What agent and standby say there is a *mark*: NUL, a nonce, a letter,
fields, newline, in one write below PIPE_BUF, so that no other writer can land inside it.
    R                    the agent is ready                                           (nonce of the lane)
    S pid                the command starts; what follows is its output               (nonce of the call)
    T size, state, U     exports and directory at the end of a stateful call          (second nonce of the call)
    E status busy oom full   the standby ended: 128+n for signal n; whether a process still holds this stdout; OOM kills of
                         the whole sandbox so far; whether its process slots are nearly used up  (nonce of the lane)
A command could learn the nonces of its own call and lie about itself, which it can do anyway; not about another call.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_COMMAND_BYTES = 4_000_000
_INLINE_BYTES = 8192  # a shell reads its request line byte by byte

COMMAND_ENV: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "SYSTEMD_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What every command sees: nothing waits for a person. (Unbuffered, so that a killed Python program's output is not lost.)"""

_RUN = 'eval "$agym_c"; { agym_s=$?; set +x; [ -z "${agym_z-}" ] || agym_report; } 2>/dev/null; exit $agym_s'
"""Runs the command text; silent under `set -x`, and an EXIT trap of the command's still has its stderr."""

_STANDBY = (
    "agym_n=$1; shift; while IFS= read -r agym_l || kill -s KILL $PPID; do case $agym_l in agym:*) break ;; esac; done; "
    'eval "${agym_l#agym:}"; ' + _RUN
)
"""One line, so that a command's error messages count its own lines. $1: a newline."""

_AGENT = r"""
exec 2>/dev/null
agym_own= agym_sh=/bin/sh
command -v setsid >/dev/null && agym_own=setsid
command -v bash >/dev/null && agym_sh=bash
agym_oom() {
    agym_o=0
    for agym_f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        [ -r "$agym_f" ] || continue
        while read -r agym_k agym_v; do
            [ "$agym_k" = oom_kill ] && agym_o=$agym_v
        done <"$agym_f"
    done
}
agym_busy() {
    agym_b=0
    for agym_f in /proc/[0-9]*/fd/*; do
        case $agym_f in "/proc/$$/"*) continue ;; esac
        [ "$agym_f" -ef /proc/$$/fd/1 ] && { agym_b=1; return; }
    done
}
agym_full() {
    agym_l=0
    for agym_d in /sys/fs/cgroup /sys/fs/cgroup/pids; do
        [ -r "$agym_d/pids.max" ] || continue
        read -r agym_m <"$agym_d/pids.max"
        read -r agym_c <"$agym_d/pids.current"
        [ "$agym_m" != max ] && [ $((agym_c * 4)) -gt $((agym_m * 3)) ] && agym_l=1
    done
}
agym_serve() {
    printf '\000%s R\n' "$1"
    while :; do
        ( exec $agym_own $agym_sh -c "$2" "$agym_sh" "$3" 2>&1 )
        agym_s=$?
        agym_busy
        agym_oom
        agym_full
        printf '\000%s E %s %s %s %s\n' "$1" "$agym_s" "$agym_b" "$agym_o" "$agym_l"
    done
}
"""

_KILL = (
    'agym_kill() { kill -s "$1" -- "-$2" || kill -s "$1" "$2"; '
    "for agym_d in /proc/[0-9]*; do "
    'while IFS= read -r agym_e || [ -n "$agym_e" ]; do '
    'case $agym_e in *"AGENTGYM_CALL=$3."*) kill -s "$1" "${agym_d#/proc/}"; break ;; esac; '
    'done <"$agym_d/environ"; done; } 2>/dev/null; '
)


def quote(text: str | bytes) -> bytes:
    """One shell word that stands for exactly these bytes (there is no way to write a NUL)."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def _quote_in_line(text: str | bytes) -> bytes:
    """The same as one line; holds while `agym_n` is a newline."""
    return quote(text).replace(b"\n", b"'\"$agym_n\"'")


def boot(lane: str) -> bytes:
    """What a fresh `/bin/sh` is sent first; it answers with an R mark, and must not be sent more before."""
    exports = b"".join(b"export %s=%s\n" % (name.encode(), quote(value)) for name, value in COMMAND_ENV.items())
    return exports + _AGENT.encode() + b"agym_serve %s %s '\n'\n" % (lane.encode(), quote(_STANDBY))


def _request(line: bytes, follows: bytes = b"") -> bytes:
    # The newline before it ends whatever an interrupted request may have left half-read.
    return b"\nagym:" + line + b"\n" + follows


def run_request(
    nonce: str, call: int, command: str, *, prelude: str, cwd: str, fallback_cwd: str, stdin: bytes | None
) -> bytes:
    """Runs `command` as call number `call`, after `prelude`, with `stdin` (None: closed)."""
    code = command.encode("utf-8", "surrogateescape")
    if len(code) <= _INLINE_BYTES:
        take, follows = b"agym_c=%s; " % _quote_in_line(code), b""
    else:
        take, follows = b"agym_c=$(head -c %d; echo .); agym_c=${agym_c%%.}; " % len(code), code
    start = take + b"export AGENTGYM_CALL=%d.; printf '\\000%%s S %%s\\n' %s $$; " % (call, nonce.encode())
    start += b"cd %s 2>/dev/null || { printf 'agentgym: no directory %%s\\n' %s; cd %s 2>/dev/null || cd /; }; " % (
        _quote_in_line(cwd), _quote_in_line(cwd), _quote_in_line(fallback_cwd)
    )  # fmt: skip
    if prelude:
        start += b"eval %s; " % _quote_in_line(prelude)
    start += b"unset agym_l agym_n; "
    if stdin is None:
        return _request(start + b"exec </dev/null", follows)
    # What the command leaves unread is read here, lest it be taken for the next request.
    feed = b"head -c %d | { ( %s ); agym_s=$?; cat >/dev/null; exit $agym_s; }; exit" % (len(stdin), _RUN.encode())
    return _request(start + feed, follows + stdin)


def kill_request(signal: str, pid: int, call: int) -> bytes:
    """Signals a command's process group, and every process that carries the call's mark in its environment."""
    return _request(_KILL.encode() + b"agym_kill %s %d %d; exit" % (signal.encode(), pid, call))


def kill_all_request() -> bytes:
    """Kills every process of this user but PID 1 and the standby that reads this; so the agent itself ends."""
    return _request(b"kill -s KILL -- -1; exit")


def idle_request() -> bytes:
    """Does nothing but bring an E mark."""
    return _request(b"exit")


def export(name: str, value: str) -> str:
    """The statement that exports one variable."""
    return f"export {name}={quote(value).decode('utf-8', 'surrogateescape')}"


def report_state(nonce: str) -> str:
    """A prelude after which the command's shell reports its exports and directory when it ends by any road but a signal.

    It does so from an EXIT trap, and once more by name where the command has replaced that trap.
    """
    return (
        "agym_report() { { agym_r=${agym_s-$?}; trap - EXIT; "
        "( unset AGENTGYM_CALL; agym_s=$(pwd; export -p); LC_ALL=C; "
        f"printf '\\000%s T %s\\n%s\\000%s U\\n' {nonce} ${{#agym_s}} \"$agym_s\" {nonce} ); exit $agym_r; }} 2>/dev/null; }}; "
        "agym_z=agym_report; trap '{ agym_report; } 2>/dev/null' EXIT"
    )
