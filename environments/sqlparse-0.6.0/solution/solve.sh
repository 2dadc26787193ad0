#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist sqlparse sqlparse-0.6.1.tar.gz ca722573f848ff2d30e40ea30f53a104b7dea7635ea9285891263eb2c58fb6e7 "$new/tree"
cd /testbed
install -D "$new/tree"/sqlparse/__init__.py sqlparse/__init__.py
install -D "$new/tree"/sqlparse/cli.py sqlparse/cli.py
install -D "$new/tree"/sqlparse/engine/grouping.py sqlparse/engine/grouping.py
install -D "$new/tree"/sqlparse/filters/aligned_indent.py sqlparse/filters/aligned_indent.py
install -D "$new/tree"/sqlparse/filters/others.py sqlparse/filters/others.py
install -D "$new/tree"/sqlparse/filters/output.py sqlparse/filters/output.py
install -D "$new/tree"/sqlparse/utils.py sqlparse/utils.py
