#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist soupsieve soupsieve-4.0.1.tar.gz 7621e3c5f6b371ed2c5eabaac5de300ac3d66d05e6d7f34783e31b63c4f90c75 "$new/tree"
cd /testbed
install -D "$new/tree"/soupsieve/__meta__.py soupsieve/__meta__.py
install -D "$new/tree"/soupsieve/css_match.py soupsieve/css_match.py
