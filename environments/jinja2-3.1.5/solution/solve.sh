#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jinja2 jinja2-3.1.6.tar.gz 0137fb05990d35f1275a587e9aee6d56da821fc83491a0fb838183be43f66d6d "$new/tree"
cd /testbed
install -D "$new/tree"/src/jinja2/__init__.py src/jinja2/__init__.py
install -D "$new/tree"/src/jinja2/filters.py src/jinja2/filters.py
