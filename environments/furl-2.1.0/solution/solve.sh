#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist furl furl-2.1.1.tar.gz bcfeccace016a87e787d3a0c240e5978c87d9aa795b9eb8a7b7998cc39c448ab "$new/tree"
cd /testbed
install -D "$new/tree"/furl/__init__.py furl/__init__.py
install -D "$new/tree"/furl/__version__.py furl/__version__.py
install -D "$new/tree"/furl/furl.py furl/furl.py
install -D "$new/tree"/furl/omdict1D.py furl/omdict1D.py
