"""Names that break careless code: overlong, deep, unprintable, options, quotes, traversal in git's own quoting."""

SCRIPT = r"""
long=$(printf 'n%.0s' $(seq 1 250)); : > "$long"
deep=; for i in $(seq 1 18); do deep="$deep$(printf 'd%.0s' $(seq 1 200))/"; done; mkdir -p "$deep" && echo x > "$deep/f"
: > "$(printf 'new\nline')"; : > "$(printf 'tab\there')"; : > "$(printf 'bytes\377\376')"; : > '-rf'; : > '--help'
: > 'a "quote"'; : > "a 'quote'"; : > '$(touch pwned)'; : > '..' 2>/dev/null; mkdir -p '...' && : > '.../x'
mkdir -p sub/.git/hooks && echo evil > sub/.git/config; mkfifo fifo; mknod node c 1 3 2>/dev/null
"""


async def attack(sandbox):
    await sandbox.exec(SCRIPT, cwd="/testbed")
