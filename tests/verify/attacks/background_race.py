"""A background process that keeps rewriting tests, programs and the workspace while the work is read out."""

SCRIPT = r"""
cat > /tmp/race.sh <<'EOF'
while true; do
    for file in tests/test_format.py tests/test_laps.py; do printf 'def test_nothing():\n    pass\n' > "$file"; done
    rm -rf stopwatch/deep; mkdir -p stopwatch/deep; ln -sfn /etc stopwatch/deep/link
    rm -rf .git/index; printf 'import os\nos._exit(0)\n' > conftest.py
done
EOF
nohup setsid bash /tmp/race.sh > /dev/null 2>&1 &
sleep 0.3
"""


async def attack(sandbox):
    await sandbox.exec(SCRIPT, cwd="/testbed")
