#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jsonpatch jsonpatch-1.46.tar.gz c378bd159fe90a56a12cae2fae5d12eb0aacab6a8925fe468609a36cc91867d3 "$new/tree"
cd /testbed
install -D "$new/tree"/jsonpatch.py jsonpatch.py
install -D "$new/tree"/jsonpatch_cli.py jsonpatch_cli.py
