#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist cachetools cachetools-8.0.1.tar.gz deb1d376d4d28c2f33f3e3058043b005e0af75c35c094bd54053e27d2906ad95 "$new/tree"
cd /testbed
install -D "$new/tree"/src/cachetools/__init__.py src/cachetools/__init__.py
install -D "$new/tree"/src/cachetools/_cached.py src/cachetools/_cached.py
install -D "$new/tree"/src/cachetools/_descriptor.py src/cachetools/_descriptor.py
