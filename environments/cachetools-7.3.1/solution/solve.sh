#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist cachetools cachetools-7.3.2.tar.gz 43e5db663b58c4337a9959069d93f54dd2e065fdd0438a504cd1100fbeb48beb "$new/tree"
cd /testbed
install -D "$new/tree"/src/cachetools/__init__.py src/cachetools/__init__.py
