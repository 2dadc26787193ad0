#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist multipart multipart-2.0.1.tar.gz 5dfea7ce4260e10a9e620369449e7d41c269a94e192db9ea4af1a0059cddd370 "$new/tree"
cd /testbed
install -D "$new/tree"/multipart.py multipart.py
