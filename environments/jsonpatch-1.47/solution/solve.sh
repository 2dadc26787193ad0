#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jsonpatch jsonpatch-1.48.tar.gz 81e9a03754137a1201d9b534ddd599cc0eb5983fe941bce238dc8a76e442bb94 "$new/tree"
cd /testbed
install -D "$new/tree"/jsonpatch.py jsonpatch.py
install -D "$new/tree"/jsonpatch_cli.py jsonpatch_cli.py
