#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist croniter croniter-6.2.4.tar.gz fc124f751b1b04805c2a04b061898b436b45ab2320b045e1e052ea895de65189 "$new/tree"
cd /testbed
install -D "$new/tree"/src/croniter/croniter.py src/croniter/croniter.py
