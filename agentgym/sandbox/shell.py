"""The agent that runs inside a sandbox: a few POSIX shell functions, sent to a plain `/bin/sh` over its stdin.

Nothing is installed and nothing but `/bin/sh` is needed; `setsid` and `bash` are used where they are. The shell reads
statements (one per request) and answers on its stdout, which the running command shares. What the agent itself says
there is a *mark*: NUL, a nonce the host drew for this call, a letter, fields, newline. `S pid`: the command starts
now; everything after it is the command's output until `E status busy oom`: its exit status (128+n for signal n),
whether some process still holds this stdout, and the cgroup's count of OOM kills so far. Marks are single writes below
PIPE_BUF, so no other writer can land inside one.

Two rules shape it. The command runs in the *foreground* of the agent: a POSIX shell makes its background children
ignore SIGINT, and a command must not inherit that. And the killing functions use builtins only, so that they work when
a fork bomb has taken the last process slot.

A stateful call gets a prelude in its own shell (`stateful_script`): restore what the last one exported, run, and
report the new exports and directory between two `T`/`U` marks carrying a second nonce, as the command can see it.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_COMMAND_BYTES = 1_500_000
_PIECE = 100_000  # the kernel refuses a single argument over 128 KiB
_STDIN_PIECE = 1 << 20

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

AGENT = r"""
exec 2>/dev/null
agym_own=
command -v setsid >/dev/null && agym_own=setsid
agym_sh=sh
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
agym_end() { agym_busy; agym_oom; printf '\000%s E %s %s %s\n' "$1" "$2" "$agym_b" "$agym_o"; }
agym_start() {
    read -r agym_p agym_v </proc/self/stat
    printf '\000%s S %s\n' "$1" "$agym_p"
    cd "$2" 2>/dev/null || { printf 'agentgym: no directory %s\n' "$2"; cd "$3" 2>/dev/null || cd /; }
    shift 3
    exec $agym_own $agym_sh -c "$@"
}
agym_kill() {
    kill -s "$1" -- "-$2" || kill -s "$1" "$2"
    for agym_d in /proc/[0-9]*; do
        agym_p=${agym_d#/proc/}
        [ "$agym_p" = $$ ] && continue
        agym_hit=
        while IFS= read -r agym_l || [ -n "$agym_l" ]; do
            case $agym_l in *"AGENTGYM_CALL=$3."*) agym_hit=1; break ;; esac
        done <"$agym_d/environ"
        [ "$agym_hit" ] && kill -s "$1" "$agym_p"
    done
}
"""


def quote(text: str | bytes) -> bytes:
    """One shell word that stands for exactly these bytes (there is no way to write a NUL)."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)] or [b""]


def run_statement(
    nonce: str, call: int, script: str, *, cwd: str, fallback_cwd: str, env: Mapping[str, str], stdin: bytes | None
) -> bytes:
    """The statement that runs `script` as call number `call`; see the module for the marks it answers with."""
    code = script.encode("utf-8", "surrogateescape")
    if len(code) <= _PIECE:
        words = [quote(code)]
    else:  # joined again inside: the arguments are one script cut into pieces
        words = [quote('IFS=; agym_c="$*"; unset IFS; set --; eval "$agym_c"'), b"bash"]
        words += [quote(piece) for piece in _pieces(code, _PIECE)]
    exports = b"".join(b"export %s=%s; " % (name.encode(), quote(value)) for name, value in env.items())
    start = b" ".join([b"agym_start", nonce.encode(), quote(cwd), quote(fallback_cwd), *words])
    child = b"( %sexport AGENTGYM_CALL=%d.; %s )" % (exports, call, start)
    end = b"agym_end %s $?\n" % nonce.encode()
    if stdin is None:
        return child + b" </dev/null 2>&1; " + end
    feed = b"".join(b"printf %%b %s; " % quote(_escape(piece)) for piece in _pieces(stdin, _STDIN_PIECE))
    return b"{ " + feed + b"} | " + child + b" 2>&1; " + end


def _escape(data: bytes) -> bytes:
    return data.replace(b"\\", b"\\\\").replace(b"\0", b"\\0000")


def kill_statement(nonce: str, signal: str, pid: int, call: int) -> bytes:
    """Signals the command's process group, and every process that still carries the call's mark in its environment."""
    return b"agym_kill %s %d %d; agym_end %s 0\n" % (signal.encode(), pid, call, nonce.encode())


def kill_all_statement(nonce: str) -> bytes:
    """Kills every process of this user but PID 1 and the shell that reads this."""
    return b"kill -s KILL -- -1; agym_end %s 0\n" % nonce.encode()


def probe_statement(nonce: str) -> bytes:
    """Answers with an `E` mark, nothing else."""
    return b"agym_end %s 0\n" % nonce.encode()


def stateful_script(command: str, nonce: str, exports: str) -> str:
    """`command`, between restoring `exports` (shell text) and reporting the new exports and directory.

    The report is made when the shell exits, by whatever road but a signal; a command that replaces our EXIT trap still
    reports when it runs to its end.
    """
    report = (
        "agym_report() { agym_r=$?; trap - EXIT; ( unset AGENTGYM_CALL agym_r agym_c; agym_s=$(pwd; export -p); LC_ALL=C; "
        f"printf '\\000%s T %s\\n%s\\000%s U\\n' {nonce} ${{#agym_s}} \"$agym_s\" {nonce} ); exit $agym_r; }}\n"
    )
    restore = f"eval {quote(exports).decode('utf-8', 'surrogateescape')} 2>/dev/null\n" if exports else ""
    body = quote(command).decode("utf-8", "surrogateescape")
    call = "{ agym_report; } 2>/dev/null"
    return f"{restore}{report}trap '{call}' EXIT\neval {body}\n{call}\n"
