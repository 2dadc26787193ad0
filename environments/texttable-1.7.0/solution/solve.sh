#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist texttable texttable-1.7.1.tar.gz ce71fc5928ede6cd7a60dbe3cb2845e6df8f5598fe435252ea1b31722415fda7 "$new/tree"
cd /testbed
install -D "$new/tree"/texttable.py texttable.py
