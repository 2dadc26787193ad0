#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist texttable texttable-1.7.0.tar.gz 2d2068fb55115807d3ac77a4ca68fa48803e84ebb0ee2340f858107a36522638 "$new/tree"
cd /testbed
install -D "$new/tree"/texttable.py texttable.py
