#!/bin/bash
# Harbor's verifier: the newer release's tests, judged by tests/expected.json.
set -euo pipefail
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jinja2 Jinja2-3.1.3.tar.gz ac8bd6544d4bb2c9792bf3a159e80bba8fda7f07e81bc3aed565432d5925ba90 "$new/tree"
cd /testbed
export PYTHONHASHSEED=0 TZ=UTC LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python3 /tests/harbor_verify.py --hidden "$new/tree" \
    --expected /tests/expected.json --reward /logs/verifier/reward.txt \
    --owned conftest.py --owned examples/basic/test_filter_and_linestatements.py --owned examples/basic/test_loop_filter.py --owned src/jinja2/tests.py --owned 'tests/**' -- python3 -m pytest -p no:cacheprovider -q -o addopts= --continue-on-collection-errors --timeout=40
