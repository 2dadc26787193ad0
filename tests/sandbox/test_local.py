"""What only the local backend has: images interpreted from a Dockerfile, layers, leases, and use without root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from agentgym.sandbox import localbuild
from agentgym.sandbox.layers import LocalImage, layer_root, remove_tree
from agentgym.sandbox.local import LocalBackend
from agentgym.sandbox.protocol import BackendUnavailable, ImageError, ImageSpec, Limits, SandboxGone

BASE = "FROM python:3-slim\n"
REPOSITORY = Path(__file__).resolve().parents[2]
MakeSpec = Callable[..., ImageSpec]


@pytest_asyncio.fixture
async def backend() -> AsyncIterator[LocalBackend]:
    try:
        opened = await LocalBackend.open("tests")
    except BackendUnavailable as error:
        pytest.skip(f"no local backend on this machine: {error}")
    yield opened
    await opened.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    count = 0

    def make(dockerfile: str, digest: str | None = None, **files: str) -> ImageSpec:
        nonlocal count
        count += 1
        context = tmp_path / f"context{count}"
        context.mkdir()
        (context / "Dockerfile").write_text(dockerfile)
        for name, text in files.items():
            (context / name).write_text(text)
        return ImageSpec(f"test-{count}", digest or f"sha256:{os.urandom(16).hex()}", context, workdir="/testbed")

    return make


async def output(backend: LocalBackend, spec: ImageSpec, command: str) -> str:
    sandbox = await backend.start(await backend.ensure_image(spec))
    try:
        return (await sandbox.exec(command)).text
    finally:
        await sandbox.close()


async def test_a_dockerfile_means_what_it_means_to_docker(backend: LocalBackend, make_spec: MakeSpec):
    dockerfile = (
        BASE + 'ARG WHO=world\nENV GREETING="hello $WHO" OTHER=x\nWORKDIR /testbed\nWORKDIR sub\nCOPY data.txt ../\n'
        'RUN pwd > /pwd && echo "$WHO $HOME" > /who\nUSER nobody\nRUN ["/bin/sh", "-c", "echo exec > /form"]\n'
        "RUN <<'EOF'\nprintf 'a\\nb\\n' > /heredoc\nEOF\nEXPOSE 80\nCMD true\n"
    )
    spec = make_spec(dockerfile, **{"data.txt": "payload"})
    seen = await output(
        backend, spec, "cat /pwd /who /form /heredoc data.txt; echo; echo $GREETING; id -u; pwd; echo $HOME"
    )
    assert seen.split("\n") == [
        "/testbed/sub", "world /root", "exec", "a", "b", "payload", "hello world", "1000", "/testbed", "/home/agent", "",
    ]  # fmt: skip


async def test_the_workdir_ends_as_one_commit_without_a_past(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(
        BASE + "WORKDIR /testbed\nRUN git init -q . && git config user.email a@b && git config user.name a \\\n"
        " && echo '*.log' > .gitignore && echo x > kept.log && git add -f . && git commit -qm one \\\n"
        " && echo the-answer > f && git add f && git commit -qm two && git rm -q f && git commit -qm three\n"
    )
    seen = await output(
        backend, spec, "git log --oneline | wc -l; git reflog; git status --short; git ls-files; git fsck --lost-found"
    )
    assert seen.split() == ["1", ".gitignore", "kept.log"]


async def test_pip_installs_system_wide_and_sees_nothing_of_the_host(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(BASE + "RUN pip install --no-cache-dir six==1.16.0\nWORKDIR /testbed\n")
    seen = await output(
        backend,
        spec,
        "python -c 'import six; print(six.__version__)'; pip list --format=freeze | cut -d= -f1 | tr '\\n' ' '",
    )
    assert seen.split("\n")[0] == "1.16.0"
    assert set(seen.split("\n")[1].split()) <= {"pip", "setuptools", "six"}


async def test_images_that_begin_alike_share_layers(backend: LocalBackend, make_spec: MakeSpec):
    begin = BASE + f"RUN echo {os.urandom(4).hex()} > /stamp\n"
    first = LocalImage.load(Path((await backend.ensure_image(make_spec(begin + "RUN echo 1 > /n\n"))).ref))
    log: list[str] = []
    second_spec = make_spec(begin + "RUN echo 2 > /n\n")
    second = LocalImage.load(Path((await localbuild.build(second_spec, log=log.append)).ref))
    shared = [a for a, b in zip(first.layers, second.layers, strict=True) if a == b]
    assert len(shared) == 3  # host files, virtual environment, the common RUN
    assert await output(backend, second_spec, "cat /n") == "2\n"


async def test_concurrent_builds_of_one_spec_build_once(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(BASE + f"RUN echo {os.urandom(4).hex()}; sleep 0.3; date +%N > /stamp\n")
    log: list[str] = []
    built = await asyncio.gather(*(localbuild.build(spec, log=log.append) for _ in range(4)))
    assert len({image.digest for image in built}) == 1
    assert sum(line.startswith("building") for line in log) == 1


@pytest.mark.parametrize(
    ("dockerfile", "complaint"),
    [
        (BASE + "RUN echo started; no-such-program; exit 3\n", "line 2: RUN.*exit code 3.*started.*no-such-program"),
        (BASE + "RUN apt-get install -y no-such-package\n", "line 2: RUN.*exit code 100.*lacks: no-such-package"),
        (BASE + "RUN touch /usr/bin/x\n", "line 2: RUN.*Read-only file system"),
        ("FROM python:2.7\n", "python:2.7.*this host's Python"),
        (BASE + "FROM python:3\n", "single stage"),
        (BASE + "ONBUILD RUN x\n", "ONBUILD is not supported"),
    ],
)
async def test_a_build_that_fails_says_where_and_why(
    backend: LocalBackend, make_spec: MakeSpec, dockerfile: str, complaint: str
):
    with pytest.raises(ImageError, match=f"(?s){complaint}"):
        await backend.ensure_image(make_spec(dockerfile))


async def test_apt_get_is_content_with_what_the_host_has(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(
        BASE + "RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*\n"
    )
    assert await output(backend, spec, "git --version | cut -c1-3") == "git\n"


async def test_a_killed_build_leaves_nothing_in_the_way(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(BASE + f"RUN echo {os.urandom(4).hex()}; echo begun; sleep 2; echo 1 > /done\n")
    program = (
        "import asyncio, sys; from pathlib import Path; from agentgym.sandbox import localbuild\n"
        "from agentgym.sandbox.protocol import ImageSpec\n"
        "spec = ImageSpec('killed', sys.argv[1], Path(sys.argv[2]), workdir='/testbed')\n"
        "asyncio.run(localbuild.build(spec, log=lambda line: print(line, flush=True)))"
    )
    arguments = [sys.executable, "-c", program, spec.digest, str(spec.context)]
    builder = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert builder.stdout is not None
    assert any("begun" in line and "RUN" not in line for line in builder.stdout)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert await output(backend, spec, "cat /done") == "1\n"


async def test_nothing_of_the_host_but_its_programs_is_in_sight(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(BASE + "WORKDIR /testbed\n")
    seen = await output(
        backend,
        spec,
        "ls /home /mnt /root /run /srv 2>/dev/null; ls -d /var/lib/docker /etc/ssh /etc/docker 2>/dev/null;"
        f"cat {REPOSITORY}/pyproject.toml 2>/dev/null; find / -xdev -name docker.sock 2>/dev/null; env | grep -c -i secret;"
        "grep -c CapEff.*0000000000000000 /proc/self/status; grep NoNewPrivs /proc/self/status; cat /proc/net/dev | grep -c :",
    )
    directories = ["/home:", "agent", "/mnt:", "/root:", "/run:", "agentgym", "/srv:"]
    assert seen.split() == [*directories, "0", "1", "NoNewPrivs:", "1", "1"]


async def test_a_snapshot_of_a_snapshot_starts_where_it_was_taken(backend: LocalBackend, make_spec: MakeSpec):
    image = await backend.ensure_image(make_spec(BASE + "RUN echo old > /testbed/f\nWORKDIR /testbed\n"))
    first = await backend.start(image)
    await first.exec("rm f; mkdir d; chmod 0 d; ln -s /nowhere link")
    second = await backend.start(await first.snapshot())
    await second.exec("echo two > g")
    third = await backend.start(await second.snapshot())
    assert (await third.exec("ls; cat g; stat -c %a d")).text.split() == ["d", "g", "link", "two", "0"]
    assert (await first.exec("ls")).text.split() == ["d", "link"]


async def test_a_sandbox_ends_with_its_lifetime_and_with_close(backend: LocalBackend, make_spec: MakeSpec):
    image = await backend.ensure_image(make_spec(BASE + "WORKDIR /testbed\n"))
    brief = await backend.start(image, Limits(lifetime_s=0.5))
    await asyncio.sleep(1.5)
    with pytest.raises(SandboxGone):
        await brief.exec("true")
    assert not (backend.root / brief.id).exists()
    closed = await backend.start(image)
    await asyncio.gather(closed.close(), closed.close())
    with pytest.raises(SandboxGone):
        await closed.exec("true")


async def test_what_a_killed_owner_left_is_reaped_from_its_lease(backend: LocalBackend, make_spec: MakeSpec):
    spec = make_spec(BASE + "WORKDIR /testbed\n")
    mine = await backend.start(await backend.ensure_image(spec))
    program = (
        "import asyncio, sys; from pathlib import Path; from agentgym.sandbox.local import LocalBackend\n"
        "from agentgym.sandbox.protocol import ImageSpec\n"
        "async def main():\n"
        "    backend = await LocalBackend.open()\n"
        "    image = await backend.ensure_image(ImageSpec('reaped', sys.argv[1], Path(sys.argv[2]), workdir='/testbed'))\n"
        "    sandbox = await backend.start(image)\n"
        "    print(sandbox.id, flush=True)\n"
        "    await sandbox.exec('sleep 4321', timeout=60)\n"
        "asyncio.run(main())"
    )
    arguments = [sys.executable, "-c", program, spec.digest, str(spec.context)]
    owner = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert owner.stdout is not None
    left = backend.root / owner.stdout.readline().strip()
    lease = json.loads((left / "lease.json").read_text())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    for _ in range(50):
        if not (sleeping := processes("sleep 4321")):
            break
        await asyncio.sleep(0.1)
    assert sleeping == []
    assert left.exists()
    assert await backend.reap() >= 1
    assert not left.exists()
    assert not any(Path(group).exists() for group in lease["cgroups"])
    assert (await mine.exec("echo alive")).text == "alive\n"


def processes(command: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().replace(b"\0", b" ").strip() == command.encode():
                found.append(path.parent.name)
    return found


PID_1 = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import init
running = {}
for number in range(100):
    pid = os.fork()
    if pid == 0:
        os.fork()
        kept = b"x" * (8 << 20)
        signal.pause()
    running[pid] = number
ended = init.end_all(running)
print(sorted(number for number, status in ended) == list(range(100)), {status for _, status in ended}, running)
print([name for name in os.listdir("/proc") if name.isdigit()])
"""


async def test_once_all_are_killed_no_process_slot_is_taken_by_the_dead(backend: LocalBackend):
    """Where RLIMIT_NPROC is the limit, a dead process that nobody reaped counts, and the next shell would not start."""
    ended = subprocess.run(
        [
            *["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"],
            *[sys.executable, "-c", PID_1, REPOSITORY / "agentgym/sandbox"],
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "True {137} {}\n['1']\n"


def test_a_tree_with_locked_directories_can_be_removed(tmp_path: Path):
    (tmp_path / "tree/locked/inner").mkdir(parents=True)
    (tmp_path / "tree/locked").chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert layer_root().name == "layers"


async def test_starts_while_others_close_are_heard(backend: LocalBackend, make_spec: MakeSpec):
    """A channel may get the descriptor number that a closing one has just given up."""
    image = await backend.ensure_image(make_spec(f"{BASE}WORKDIR /testbed\n"))
    old = [await backend.start(image, Limits()) for _ in range(2)]
    for _ in range(6):
        async with asyncio.timeout(10):
            starting = [asyncio.create_task(backend.start(image, Limits())) for _ in range(2)]
            for sandbox in old:
                await sandbox.close()
            old = await asyncio.gather(*starting)
    for sandbox in old:
        assert (await sandbox.exec("echo alive")).output == b"alive\n"
        await sandbox.close()
