#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist cachetools cachetools-7.3.3.tar.gz 46e92905f580cb137c499b9ec6acd73d569c2c3542ddfeb286618685e55cb340 "$new/tree"
cd /testbed
install -D "$new/tree"/src/cachetools/__init__.py src/cachetools/__init__.py
