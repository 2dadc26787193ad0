"""Runs inside the grading sandbox, outside the tested process: starts it, times it, and believes only signed lines.

Standard library only, one file, any Python >= 3.7: it is sent to images that hold nothing of ours. Started with `-I
-S` and an absolute path, so nothing in the workspace is imported. Its orders come on stdin and are never on disk, in
argv or in the environment; its one answer is a signed JSON line on stdout, which the tested processes never get.

Per run it makes a fresh key, hands it to the runner through a pipe, and reads back signed lines. A test that
does not end within its limit is killed with everything it started, keeps the verdict "timeout", and the rest runs in
a new process; so does a crash. Nothing the tested code does can therefore take more from the tests than the one that
was running.
"""

import ast
import contextlib
import hashlib
import hmac
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

LOG_TAIL = 20000
MAX_STREAM = 64 * 1024 * 1024


def protect_memory():
    """No other process of this user may read our memory or descriptors; orphans of the tests become our children."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        pass  # A Python without ctypes: the signatures still hold, only the memory is readable.


def descendants():
    """pid -> the fields of /proc/PID/stat from the state on, for everything below us."""
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    processes[int(name)] = stat.read().rsplit(b")", 1)[1].split()
            except (OSError, IndexError):
                continue  # It ended meanwhile.
    found, frontier = {}, {os.getpid()}
    while frontier:
        frontier = {pid for pid, stat in processes.items() if int(stat[1]) in frontier and pid not in found}
        found.update((pid, processes[pid]) for pid in frontier)
    return found


class Patience:
    """Tells a test that hangs from one that a busy machine starves: wall time alone would blame the solution for the load.

    Exhausted once `seconds` have passed and the processes either used a good part of the second half on a CPU (an endless loop)
    or were never seen runnable in it (a deadlock); in any case after three times that long.
    """

    def __init__(self, seconds):
        self.restart(seconds)

    def restart(self, seconds):
        self.seconds, self.since, self.ticks, self.active = seconds, time.monotonic(), None, False

    def exhausted(self):
        elapsed = time.monotonic() - self.since
        if elapsed < self.seconds / 2:
            return False
        stats = list(descendants().values())
        ticks = sum(int(field) for stat in stats for field in stat[11:15])
        self.ticks = ticks if self.ticks is None else self.ticks
        self.active = self.active or any(stat[0] in (b"R", b"D") for stat in stats)
        busy = (ticks - self.ticks) / os.sysconf("SC_CLK_TCK")
        hangs = elapsed >= self.seconds and (busy >= self.seconds / 4 or not self.active)
        return hangs or elapsed >= 3 * self.seconds


def signal_all(pids, sig):
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, sig)


def kill_tests():
    """Kill all descendants. Everything is stopped before anything is killed: a fork bomb at its process limit cannot make
    new processes while none dies, so the list becomes complete.
    """
    stopped = set()
    for _ in range(50):
        new = set(descendants()) - stopped
        if not new:
            break
        signal_all(new, signal.SIGSTOP)
        stopped |= new
    for _ in range(200):
        signal_all(descendants(), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


class Stream:
    """The signed lines of one run. A line that is not signed, or out of order, is kept as evidence of tampering."""

    def __init__(self, key):
        self.key, self.buffer, self.sequence, self.forged, self.size = key, b"", 0, 0, 0

    def feed(self, data):
        self.size += len(data)
        if self.size > MAX_STREAM:
            self.forged += 1
            return
        self.buffer += data
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            mac, _, body = line.partition(b" ")
            good = hmac.new(self.key, b"%d " % self.sequence + body, hashlib.sha256).hexdigest().encode()
            if hmac.compare_digest(mac, good):
                self.sequence += 1
                yield ast.literal_eval(body.decode())
            else:
                self.forged += 1


def run_once(orders, ids, deadline):
    """One process of the runner over `ids`. Returns what it reported and how it ended."""
    key = os.urandom(32)
    orders_read, orders_write = os.pipe()
    report_read, report_write = os.pipe()
    environment = dict(os.environ)
    environment.update(orders["env"])
    python_path = environment.pop("PYTHONPATH", "")
    log = tempfile.TemporaryFile()  # noqa: SIM115
    child = subprocess.Popen(
        orders["python"] + [orders["runner"], str(orders_read), str(report_write)],
        cwd=orders["workdir"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(orders_read, report_write),
        start_new_session=True,
    )
    os.close(orders_read)
    os.close(report_write)
    request = dict(orders["request"], key=key.hex(), ids=ids, python_path=python_path)
    # A broken pipe: the interpreter did not start; its exit code and log say why.
    with contextlib.suppress(BrokenPipeError), os.fdopen(orders_write, "wb") as pipe:
        pipe.write(json.dumps(request).encode())

    stream, events, running, killed = Stream(key), [], None, None
    patience = Patience(orders["collect_s"])
    while True:
        if time.monotonic() > deadline:
            killed = "budget"
            break
        if patience.exhausted():
            killed = "test" if running is not None else "collection"
            break
        ready, _, _ = select.select([report_read], [], [], 0.5)
        data = os.read(report_read, 65536) if ready else None
        if data:
            for event in stream.feed(data):
                events.append(event)
                if event["event"] == "start":
                    running = event["id"]
                elif event["event"] == "end":
                    running = None
                patience.restart(orders["test_s"])
        if data == b"" or (data is None and child.poll() is not None):
            break
    if killed is None:
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            killed = "exit"
    kill_tests()
    os.close(report_read)
    code = child.poll()
    log.seek(0, 2)
    log.seek(max(0, log.tell() - LOG_TAIL))
    tail = log.read().decode("utf-8", "replace")
    return {"events": events, "running": running, "killed": killed, "code": code, "forged": stream.forged, "log": tail}


def main():
    protect_memory()
    orders = json.loads(sys.stdin.buffer.read().decode())
    deadline = time.monotonic() + orders["budget_s"]
    remaining, runs = list(orders["ids"]), []
    while remaining and len(runs) < orders["max_runs"] and time.monotonic() < deadline:
        run = run_once(orders, remaining, deadline)
        runs.append(run)
        done = {event["id"] for event in run["events"] if event["event"] == "end"}
        if run["running"] is None:
            break  # It ended by itself, or died where no single test is to blame.
        done.add(run["running"])
        remaining = [test for test in remaining if test not in done]
    body = json.dumps({"nonce": orders["nonce"], "runs": runs}).encode()
    mac = hmac.new(bytes.fromhex(orders["key"]), body, hashlib.sha256).hexdigest()
    sys.stdout.buffer.write(b"\n" + mac.encode() + b" " + body + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
