#!/bin/bash
# Harbor's verifier; agentgym grades with the [agentgym] table of task.toml.
set -euo pipefail
mkdir -p /logs/verifier
cd /testbed
rm -rf tests
cp -R /tests/hidden/tests tests
reward=0
python3 -m pytest -p no:cacheprovider -q -o addopts= tests && reward=1
echo "$reward" > /logs/verifier/reward.txt
