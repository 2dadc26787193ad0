#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist asteval asteval-1.0.7.tar.gz 729fa010511957afcbdbadb0304da09cef6904c145b6901e917afac2dd5668a1 "$new/tree"
cd /testbed
install -D "$new/tree"/asteval/asteval.py asteval/asteval.py
install -D "$new/tree"/asteval/astutils.py asteval/astutils.py
install -D "$new/tree"/asteval/version.py asteval/version.py
