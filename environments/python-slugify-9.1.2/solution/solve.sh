#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist python-slugify python_slugify-9.1.3.tar.gz 90e997f2e0987239ce95e12f700086eb18e1d1d3ee22624fbbdbd095afca42b6 "$new/tree"
cd /testbed
install -D "$new/tree"/slugify/__version__.py slugify/__version__.py
install -D "$new/tree"/slugify/slugify.py slugify/slugify.py
install -D "$new/tree"/tools/check_dist.py tools/check_dist.py
