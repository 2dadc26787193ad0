#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist toolz toolz-1.2.0.tar.gz 9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490 "$new/tree"
cd /testbed
install -D "$new/tree"/toolz/_signatures.py toolz/_signatures.py
install -D "$new/tree"/toolz/functoolz.py toolz/functoolz.py
install -D "$new/tree"/toolz/itertoolz.py toolz/itertoolz.py
