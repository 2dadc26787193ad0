#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist furl furl-2.1.0.tar.gz c0e0231a1feee2acd256574b7033df3144775451c610cb587060d6a0d7e0b621 "$new/tree"
cd /testbed
install -D "$new/tree"/furl/__init__.py furl/__init__.py
install -D "$new/tree"/furl/__version__.py furl/__version__.py
install -D "$new/tree"/furl/furl.py furl/furl.py
