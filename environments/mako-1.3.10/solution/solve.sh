#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist mako mako-1.3.11.tar.gz 071eb4ab4c5010443152255d77db7faa6ce5916f35226eb02dc34479b6858069 "$new/tree"
cd /testbed
install -D "$new/tree"/mako/__init__.py mako/__init__.py
install -D "$new/tree"/mako/pyparser.py mako/pyparser.py
install -D "$new/tree"/mako/template.py mako/template.py
