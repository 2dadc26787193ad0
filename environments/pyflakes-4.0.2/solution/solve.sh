#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist pyflakes pyflakes-4.0.3.tar.gz 94762a3a5a343a79b28754f96c554bce057a592a4896907d73f0369fe824e053 "$new/tree"
cd /testbed
install -D "$new/tree"/pyflakes/__init__.py pyflakes/__init__.py
install -D "$new/tree"/pyflakes/checker.py pyflakes/checker.py
