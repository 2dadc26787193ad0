#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist voluptuous voluptuous-0.16.0.tar.gz 006535e22fed944aec17bef6e8725472476194743c87bd233e912eb463f8ff05 "$new/tree"
cd /testbed
install -D "$new/tree"/voluptuous/__init__.py voluptuous/__init__.py
install -D "$new/tree"/voluptuous/schema_builder.py voluptuous/schema_builder.py
install -D "$new/tree"/voluptuous/validators.py voluptuous/validators.py
