#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jsonpatch jsonpatch-1.44.tar.gz 88fc1d9728168b4a9be27bb00de469dfb3cd28e8e5b568b24efb2ac583cba7b9 "$new/tree"
cd /testbed
install -D "$new/tree"/jsonpatch-stubs/__init__.pyi jsonpatch-stubs/__init__.pyi
install -D "$new/tree"/jsonpatch.py jsonpatch.py
install -D "$new/tree"/typetests/usage.py typetests/usage.py
