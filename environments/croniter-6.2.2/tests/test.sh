#!/bin/bash
# Harbor's verifier: the newer release's tests, judged by tests/expected.json.
set -euo pipefail
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist croniter croniter-6.2.3.tar.gz fb129986ef7e2c44e3f4c9f503da83ad914d2afa48f40a43ee3dca4b5c41d476 "$new/tree"
cd /testbed
export PYTHONHASHSEED=0 TZ=UTC LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python3 /tests/harbor_verify.py --hidden "$new/tree" \
    --expected /tests/expected.json --reward /logs/verifier/reward.txt \
    --owned conftest.py --owned 'src/croniter/tests/**' -- python3 -m pytest -p no:cacheprovider -q -o addopts= --continue-on-collection-errors --timeout=40
