#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist sqlparse sqlparse-0.5.5.tar.gz e20d4a9b0b8585fdf63b10d30066c7c94c5d7a7ec47c889a2d83a3caa93ff28e "$new/tree"
cd /testbed
install -D "$new/tree"/sqlparse/__init__.py sqlparse/__init__.py
install -D "$new/tree"/sqlparse/engine/grouping.py sqlparse/engine/grouping.py
install -D "$new/tree"/sqlparse/engine/statement_splitter.py sqlparse/engine/statement_splitter.py
