#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist pyrsistent pyrsistent-0.19.2.tar.gz bfa0351be89c9fcbcb8c9879b826f4353be10f58f8a677efab0c017bf7137ec2 "$new/tree"
cd /testbed
install -D "$new/tree"/_pyrsistent_version.py _pyrsistent_version.py
install -D "$new/tree"/pyrsistent/_pmap.py pyrsistent/_pmap.py
