#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist voluptuous voluptuous-0.15.2.tar.gz 6ffcab32c4d3230b4d2af3a577c87e1908a714a11f6f95570456b1849b0279aa "$new/tree"
cd /testbed
install -D "$new/tree"/voluptuous/__init__.py voluptuous/__init__.py
install -D "$new/tree"/voluptuous/schema_builder.py voluptuous/schema_builder.py
