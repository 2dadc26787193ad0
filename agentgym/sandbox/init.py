"""PID 1 of a `local` sandbox: starts programs on request and reaps what they leave. A script that runs *inside*.

The host keeps one end of a socket pair, this process the other. A request is one JSON datagram with three descriptors
attached (stdin, stdout, stderr of the new program): `{"id", "argv", "env", "cwd"}`; the answer, when that program
ends, is `{"id", "status"}` (128+n for signal n, 127 where it could not start). `{"kill": true}` kills everything but
us. Whatever is started inherits this process's namespaces, limits and system call filter, so there is no other way in
to secure.

As PID 1 of its namespace it cannot be killed from inside, and it is not dumpable, so what runs beside it under the same
user cannot trace it. It ends when the host's end closes; the kernel then kills everything in the namespace. Only the
standard library, and imports kept few: this starts with every sandbox.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time

_DATAGRAM = 1 << 18
_DYING_S = 5.0
_PR_SET_DUMPABLE = 4


def serve(channel: socket.socket) -> None:
    """Answer requests until the host goes away."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    running: dict[int, int] = {}
    channel.send(b'{"ready": true}')
    while True:
        readable, _, _ = select.select([channel, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
        answer(channel, reap(running))
        if channel not in readable:
            continue
        message, descriptors = receive(channel)
        if not message:
            return
        if "kill" in message:
            answer(channel, end_all(running))
            continue
        try:
            running[start(message, descriptors, channel)] = message["id"]
        except OSError as error:
            channel.send(json.dumps({"id": message["id"], "status": 127, "error": str(error)}).encode())
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def receive(channel: socket.socket) -> tuple[dict, list[int]]:
    data, ancillary, _, _ = channel.recvmsg(_DATAGRAM, socket.CMSG_SPACE(3 * 4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return (json.loads(data) if data else {}), list(descriptors)


def answer(channel: socket.socket, ended: list[tuple[int, int]]) -> None:
    for request, status in ended:
        channel.send(json.dumps({"id": request, "status": status}).encode())


def start(message: dict, descriptors: list[int], channel: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        channel.close()  # before we can be traced
        set_dumpable(True)
        os.setsid()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("300")  # the kernel takes the policy's processes before this one
        try:
            os.chdir(message["cwd"])
        except OSError:
            os.chdir("/")
        os.execvpe(message["argv"][0], message["argv"], message["env"])
    except BaseException as error:
        os.write(2, f"agentgym: cannot start {message['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


def reap(running: dict[int, int]) -> list[tuple[int, int]]:
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid in running:
            code = os.waitstatus_to_exitcode(status)
            ended.append((running.pop(pid), code if code >= 0 else 128 - code))


def set_dumpable(value: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0)


def end_all(running: dict[int, int]) -> list[tuple[int, int]]:
    """Kill everything and reap it, so that whatever is asked for next finds all process slots free: RLIMIT_NPROC counts what
    is dying as well as what is dead and not reaped. Gives up where something does not die, in the kernel, within seconds.
    """
    ended = []
    deadline = time.monotonic() + _DYING_S
    while time.monotonic() < deadline:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:  # not even a dead one
            break
        ended += reap(running)
        time.sleep(0.001)
    return ended


if __name__ == "__main__":
    set_dumpable(False)
    for name, value in json.loads(sys.argv[2]).items():
        resource.setrlimit(getattr(resource, name), (value, value))
    serve(socket.socket(fileno=int(sys.argv[1])))
