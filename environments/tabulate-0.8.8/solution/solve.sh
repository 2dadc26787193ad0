#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist tabulate tabulate-0.8.9.tar.gz eb1d13f25760052e8931f2ef80aaf6045a6cceb47514db8beab24cded16f13a7 "$new/tree"
cd /testbed
install -D "$new/tree"/tabulate.py tabulate.py
