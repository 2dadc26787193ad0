"""The last step of every image build: what the rest of the system may rely on, whatever the Dockerfile did.

After it, and in both backends:

- the workdir is a git repository with exactly one commit on `main`, no remote, no reflog, no unreachable object:
  history that could reveal the answer is gone because `.git` was made anew. Files the old repository tracked stay
  tracked, also ignored ones; the work tree is clean. An image without git stays as it is; the build log says so.
- caches of pip, apt and /tmp are empty;
- commands run as uid 1000 (`agent`), who owns the workdir and a home directory, and not as root; unless the spec keeps the
  image's own user (plain Harbor tasks expect theirs), whose files and home then stay as they are.

The script is POSIX sh and deterministic: the same tree gives the same commit id.
"""

from __future__ import annotations

import json

from agentgym.sandbox.dockerfile import Instruction
from agentgym.sandbox.protocol import ImageSpec

AGENT_UID = 1000
AGENT_HOME = "/home/agent"
FINISH_VERSION = 1
"""Part of every image's cache key: raise it when the script below changes."""

COMMIT = r"""
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
    export GIT_AUTHOR_NAME=agentgym GIT_AUTHOR_EMAIL=agentgym@localhost GIT_AUTHOR_DATE='2000-01-01T00:00:00+0000'
    export GIT_COMMITTER_NAME=agentgym GIT_COMMITTER_EMAIL=agentgym@localhost
    export GIT_COMMITTER_DATE='2000-01-01T00:00:00+0000'
    list=/tmp/agentgym-tracked
    : > "$list"
    if [ -e .git ]; then
        git -c safe.directory='*' ls-files -z |
            xargs -0 sh -c 'for f; do if [ -L "$f" ] || [ ! -d "$f" ]; then printf "%s\000" "$f"; fi; done' sh > "$list"
    fi
    find . -name .git -prune -exec rm -rf {} +
    git init -q --template= -b main .
    git add -A .
    git update-index --add --remove -z --stdin < "$list"
    rm -f "$list"
    git -c core.logAllRefUpdates=false -c commit.gpgsign=false commit -q --allow-empty --no-verify -m 'task environment'
    rm -rf .git/logs .git/COMMIT_EDITMSG
"""
"""Makes the current directory a repository of one commit, whatever it was before; needs git and no right but to write there."""

_SCRIPT = r"""
set -eu
cd "$1"
owner=$2
if ! grep -q '^[^:]*:[^:]*:1000:' /etc/passwd; then
    echo 'agent:x:1000:1000:agent:/home/agent:/bin/sh' >> /etc/passwd
    echo 'agent:x:1000:' >> /etc/group
fi
mkdir -p /home/agent
rm -rf /root/.cache /home/agent/.cache /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /tmp/* /tmp/.[!.]* /var/tmp/*
if command -v git >/dev/null 2>&1; then
{commit}    unset GIT_CONFIG_NOSYSTEM
    git config --system --replace-all safe.directory '*'
    git config --system user.name agent
    git config --system user.email agent@localhost
    test "$(git rev-list --all --count)" = 1
    test -z "$(git status --porcelain)"
    if [ "$owner" != none ]; then chown -R "$owner" . && git update-index -q --refresh; fi
    echo "agentgym: $1 is one commit, $(git rev-parse HEAD)"
else
    echo "agentgym: no git in this image; the history of $1 is not scrubbed"
    if [ "$owner" != none ]; then chown -R "$owner" .; fi
fi
if [ "$owner" != none ]; then chown -R "$owner" /home/agent .git 2>/dev/null || true; fi
""".replace("{commit}", COMMIT.lstrip("\n"))


_APT_AS_ROOT = """mkdir -p /etc/apt/apt.conf.d && echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/99agentgym"""
"""Without capabilities apt cannot become its own user."""


def finish(spec: ImageSpec, *, chown: bool, image_user: str = "root") -> list[Instruction]:
    """The instructions to append. chown: give the workdir to `agent` (needless where all files have one owner).

    image_user: whom the image names, for a spec that keeps it.
    """
    if spec.user == "image":
        return _finish_as_it_is(spec, image_user)
    owner = f"{AGENT_UID}:{AGENT_UID}" if chown else "none"
    run = json.dumps(["/bin/sh", "-c", _SCRIPT.strip() + "\n", "finish", spec.workdir, owner])
    environment = " ".join(f"{name}={json.dumps(value)}" for name, value in {"HOME": AGENT_HOME, **spec.env}.items())
    return [
        Instruction("USER", "root", 0),
        Instruction("WORKDIR", spec.workdir, 0),
        Instruction("RUN", run, 0),
        Instruction("ENV", environment, 0),
        Instruction("USER", f"{AGENT_UID}:{AGENT_UID}", 0),
        Instruction("ENTRYPOINT", "[]", 0),
        Instruction("CMD", '["/bin/sh"]', 0),
    ]


def _finish_as_it_is(spec: ImageSpec, user: str) -> list[Instruction]:
    run = json.dumps(["/bin/sh", "-c", _SCRIPT.strip() + "\n", "finish", spec.workdir, "none"])
    environment = " ".join(f"{name}={json.dumps(value)}" for name, value in spec.env.items())
    return [
        Instruction("USER", "root", 0),
        Instruction("WORKDIR", spec.workdir, 0),
        Instruction("RUN", run, 0),
        Instruction("RUN", _APT_AS_ROOT, 0),
        *([Instruction("ENV", environment, 0)] if environment else []),
        Instruction("USER", user, 0),
        Instruction("ENTRYPOINT", "[]", 0),
        Instruction("CMD", '["/bin/sh"]', 0),
    ]
