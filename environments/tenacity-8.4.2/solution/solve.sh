#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist tenacity tenacity-8.5.0.tar.gz 8bc6c0c8a09b31e6cad13c47afbed1a567518250a9a171418582ed8d9c20ca78 "$new/tree"
cd /testbed
install -D "$new/tree"/tenacity/__init__.py tenacity/__init__.py
install -D "$new/tree"/tenacity/asyncio/__init__.py tenacity/asyncio/__init__.py
