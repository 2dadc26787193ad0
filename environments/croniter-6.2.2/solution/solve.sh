#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist croniter croniter-6.2.3.tar.gz fb129986ef7e2c44e3f4c9f503da83ad914d2afa48f40a43ee3dca4b5c41d476 "$new/tree"
cd /testbed
install -D "$new/tree"/src/croniter/croniter.py src/croniter/croniter.py
