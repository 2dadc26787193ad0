#!/bin/bash
# Harbor's verifier: the exit status of Node's own test runner. agentgym grades with the [agentgym] table of task.toml.
set -uo pipefail
mkdir -p /logs/verifier
cd /testbed
rm -rf test
cp -R /tests/hidden/test test
reward=0
node --test test/*.test.mjs && reward=1
echo "$reward" > /logs/verifier/reward.txt
