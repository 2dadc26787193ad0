#!/bin/bash
# Judges by the exit status of Node's own test runner, under Harbor and under agentgym alike.
set -uo pipefail
mkdir -p /logs/verifier
cd /testbed
rm -rf test
cp -R /tests/hidden/test test
reward=0
node --test test/*.test.mjs && reward=1
echo "$reward" > /logs/verifier/reward.txt
