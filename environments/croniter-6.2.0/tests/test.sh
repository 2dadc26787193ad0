#!/bin/bash
# Harbor's verifier: the newer release's tests, judged by tests/expected.json.
set -euo pipefail
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist croniter croniter-6.2.1.tar.gz 358e61e82698b905debe039223fdd436ab4a50af51e9f2bc0c5239c35ccd468e "$new/tree"
cd /testbed
export PYTHONHASHSEED=0 TZ=UTC LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python3 /tests/harbor_verify.py --hidden "$new/tree" \
    --expected /tests/expected.json --reward /logs/verifier/reward.txt \
    --owned conftest.py --owned 'src/croniter/tests/**' -- python3 -m pytest -p no:cacheprovider -q -o addopts= --continue-on-collection-errors --timeout=40
