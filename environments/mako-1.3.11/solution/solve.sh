#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist mako mako-1.3.12.tar.gz 9f778e93289bd410bb35daadeb4fc66d95a746f0b75777b942088b7fd7af550a "$new/tree"
cd /testbed
install -D "$new/tree"/mako/__init__.py mako/__init__.py
install -D "$new/tree"/mako/lookup.py mako/lookup.py
install -D "$new/tree"/mako/template.py mako/template.py
