"""A sandbox that may reach some hosts reaches those, by name, and nothing else: with a real server outside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import pytest_asyncio

from agentgym.sandbox import ManagedBackend
from agentgym.sandbox.egress import Egress
from agentgym.sandbox.protocol import Sandbox, SandboxBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

FETCH = """
import sys, urllib.request
try:
    request = urllib.request.Request(sys.argv[1], data=sys.argv[2].encode() or None)
    print(urllib.request.urlopen(request, timeout=20).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print(error)
"""

TUNNEL = """
import socket, sys
proxy = socket.create_connection(("127.0.0.1", 3128))
proxy.send(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
print(proxy.recv(1000).decode().splitlines()[0])
proxy.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
while data := proxy.recv(1000):
    print(data.decode())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"hello from outside " + self.path.encode())

        def do_POST(self) -> None:
            self.answer(b"%d bytes came" % len(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_port
        running.shutdown()


@pytest_asyncio.fixture(loop_scope="module")
async def allowed(fresh: Sandbox):
    """A sandbox that may reach localhost, which stands for a host outside; so addresses that are not public are let through."""
    await fresh.write_file("/tmp/fetch.py", FETCH.encode())
    await fresh.write_file("/tmp/tunnel.py", TUNNEL.encode())
    egress = await Egress.open(fresh, ["localhost", "*.localhost"], public_only=False)
    yield fresh, {**egress.environment, "no_proxy": "", "NO_PROXY": ""}
    await egress.close()


async def test_a_listed_host_is_reached_and_another_is_not(allowed, server: int):
    sandbox, env = allowed
    page = await sandbox.exec(f"python3 /tmp/fetch.py http://localhost:{server}/page?a=1 ''", env=env)
    assert page.text == "hello from outside /page?a=1\n"
    large = await sandbox.exec(
        f"python3 /tmp/fetch.py http://localhost:{server}/ $(head -c 100000 /dev/zero | tr '\\0' x)", env=env
    )
    assert large.text == "100000 bytes came\n"
    for host in (f"127.0.0.1:{server}", "example.org", "xlocalhost", "localhost.example.org"):
        refused = await sandbox.exec(f"python3 /tmp/fetch.py http://{host}/ ''", env=env)
        assert refused.text.startswith("403 agentgym:"), refused.text
    without = await sandbox.exec(f"python3 /tmp/fetch.py http://localhost:{server}/ ''")
    assert "hello" not in without.text


async def test_a_tunnel_goes_to_a_listed_host_only(allowed, server: int):
    sandbox, env = allowed
    through = await sandbox.exec(f"python3 /tmp/tunnel.py localhost:{server}", env=env)
    assert "200" in through.text.splitlines()[0]
    assert "hello from outside /" in through.text
    refused = await sandbox.exec("python3 /tmp/tunnel.py example.org:443", env=env)
    assert "403" in refused.text.splitlines()[0]


async def test_the_machine_and_its_network_are_refused_also_by_a_listed_name(fresh: Sandbox, server: int):
    await fresh.write_file("/tmp/fetch.py", FETCH.encode())
    egress = await Egress.open(fresh, ["localhost", "169.254.169.254", "127.0.0.1"])
    try:
        for host in (f"localhost:{server}", "169.254.169.254", f"127.0.0.1:{server}"):
            env = {**egress.environment, "no_proxy": "", "NO_PROXY": ""}
            seen = await fresh.exec(f"python3 /tmp/fetch.py http://{host}/ ''", env=env)
            assert "which no sandbox may reach" in seen.text
    finally:
        await egress.close()


async def test_limits_ask_for_it_and_a_killed_relay_is_started_again(backend: SandboxBackend, start):
    assert isinstance(backend, ManagedBackend)
    sandbox = await start(allow_hosts=("example.org",))
    await sandbox.write_file("/tmp/fetch.py", FETCH.encode())
    for _ in range(2):
        seen = await sandbox.exec("python3 /tmp/fetch.py http://elsewhere.example.com/ ''")
        assert seen.text.startswith("403 agentgym: elsewhere.example.com is not among the hosts"), seen.text
        await sandbox.exec("kill -9 -1; sleep 1")
    if backend.name != "kubernetes":  # a pod has its interface, and policies that close it (kubernetes/test_probe.py)
        assert (await sandbox.exec("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")).text.split() == ["lo"]
