#!/bin/bash
# Harbor's verifier: the newer release's tests, judged by tests/expected.json.
set -euo pipefail
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist charset-normalizer charset_normalizer-3.5.2.tar.gz 39de2a259fc954455c57274dc94c79d5842774e1247a016aff30bc0efed0f4ef "$new/tree"
cd /testbed
export PYTHONHASHSEED=0 TZ=UTC LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python3 /tests/harbor_verify.py --hidden "$new/tree" \
    --expected /tests/expected.json --reward /logs/verifier/reward.txt \
    --owned conftest.py --owned 'tests/**' -- python3 -m pytest -p no:cacheprovider -q -o addopts= --continue-on-collection-errors --timeout=40
