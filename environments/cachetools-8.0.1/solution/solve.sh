#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist cachetools cachetools-8.0.2.tar.gz 30ac523adfc118b51d2b2e7bad8a0ddb31370dfe2700c7f10ca224f36ccf81e0 "$new/tree"
cd /testbed
install -D "$new/tree"/src/cachetools/__init__.py src/cachetools/__init__.py
install -D "$new/tree"/src/cachetools/__init__.pyi src/cachetools/__init__.pyi
install -D "$new/tree"/src/cachetools/_cached.py src/cachetools/_cached.py
install -D "$new/tree"/src/cachetools/_cachedmethod.py src/cachetools/_cachedmethod.py
install -D "$new/tree"/src/cachetools/_decorator.py src/cachetools/_decorator.py
install -D "$new/tree"/src/cachetools/_descriptor.py src/cachetools/_descriptor.py
install -D "$new/tree"/src/cachetools/func.py src/cachetools/func.py
