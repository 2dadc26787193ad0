#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist asteval asteval-1.0.6.tar.gz 1aa8e7304b2e171a90d64dd269b648cacac4e46fe5de54ac0db24776c0c4a19f "$new/tree"
cd /testbed
install -D "$new/tree"/asteval/asteval.py asteval/asteval.py
install -D "$new/tree"/asteval/astutils.py asteval/astutils.py
install -D "$new/tree"/asteval/version.py asteval/version.py
