"""What a sandbox may use and reach: limits, network, privileges."""

from __future__ import annotations

import pytest

from agentgym.sandbox.protocol import Sandbox, SandboxBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_there_is_no_network_but_loopback(sandbox: Sandbox):
    connect = "import socket; socket.create_connection(('169.254.169.254', 80), timeout=3)"
    seen = (await sandbox.exec(f'python3 -c "{connect}"')).text
    if sandbox.backend == "kubernetes":  # a pod always has an interface; what goes through it is the cluster's to drop
        assert "timed out" in seen
        return
    assert "Network is unreachable" in seen
    assert (await sandbox.exec("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")).text.split() == ["lo"]


async def test_loopback_works(sandbox: Sandbox):
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); "
        "s.accept()[0].send(b'x'); print(c.recv(1))"
    )
    assert (await sandbox.exec(f'python3 -c "{script}"')).text == "b'x'\n"


async def test_network_on_request(start):
    networked = await start(network=True)
    result = await networked.exec("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
    assert len(result.text.split()) > 1


async def test_no_capability_and_no_way_to_gain_one(sandbox: Sandbox):
    status = (await sandbox.exec("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")).text
    fields = dict(line.split(":\t") for line in status.splitlines())
    assert {int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert fields["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    "command",
    [
        "mount -t tmpfs x /mnt", "chroot / true", "unshare -m true", "su -c true", "mknod /tmp/d b 8 0", "chown 0 hello.txt",
        "echo 1 > /proc/sys/kernel/panic", "echo x > /proc/sysrq-trigger", "dmesg", 
        "ls /var/run/docker.sock",
    ],
)  # fmt: skip
async def test_what_only_root_may_do_fails(sandbox: Sandbox, command: str):
    assert (await sandbox.exec(command)).exit_code != 0


async def test_the_process_limit_holds(start, backend: SandboxBackend):
    if backend.name == "kubernetes":
        pytest.skip("a cluster limits the processes of all pods alike (podPidsLimit of its kubelets)")
    small = await start(pids=40)
    result = await small.exec("for i in $(seq 60); do sleep 5 & done 2>&1; wait", timeout=20)
    assert "Resource temporarily unavailable" in result.text
    assert (await small.exec("echo alive")).output == b"alive\n"


async def test_the_cpu_limit_holds(start):
    half = await start(cpus=0.5)
    burn = "import time, os; t = time.time(); [None for _ in iter(lambda: time.time() < t + 2, False)]; print(os.times().user)"
    result = await half.exec(f'python3 -c "{burn}"', timeout=30)
    assert float(result.text) < 1.5


async def test_a_file_cannot_outgrow_the_disk_limit(start):
    tight = await start(disk_mb=20)
    result = await tight.exec("head -c 100000000 /dev/zero > /tmp/filler; stat -c %s /tmp/filler", timeout=30)
    assert int(result.text.split()[-1]) <= 20 << 20
    assert (await tight.exec("rm /tmp/filler; echo alive")).output == b"alive\n"


async def test_a_sandbox_cannot_outgrow_its_disk_with_many_files(start, backend):
    """Each file is small; all together are over. What wrote them is stopped, and cleaning up is possible."""
    if backend.name == "kubernetes":
        pytest.skip("a pod over its disk limit is evicted by its node: kubernetes/test_failures.py")
    tight = await start(disk_mb=150, memory_mb=512)
    fill = "i=0; while head -c 10000000 /dev/zero > /tmp/filler-$i; do i=$((i + 1)); [ $i -lt 400 ] || exit; sleep 0.02; done"
    result = await tight.exec(fill, timeout=60)
    held = await tight.exec("du -sm /tmp | cut -f1", timeout=60)
    assert result.disk_full or b"No space left" in result.output, result
    assert int(held.text.split()[-1]) < 1500, "a second's worth more than the limit, on a fast disk"
    assert (await tight.exec("rm -f /tmp/filler-*; echo alive", timeout=60)).output == b"alive\n"
    assert (
        await tight.exec("head -c 50000000 /dev/zero > /tmp/small && echo written", timeout=60)
    ).output == b"written\n"
