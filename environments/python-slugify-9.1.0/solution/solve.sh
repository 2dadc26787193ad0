#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist python-slugify python_slugify-9.1.1.tar.gz db48547ed6d43072af59c86c3bc80bfc3c6f4e88c130c99de11775d721a574b8 "$new/tree"
cd /testbed
install -D "$new/tree"/slugify/__version__.py slugify/__version__.py
install -D "$new/tree"/slugify/slugify.py slugify/slugify.py
install -D "$new/tree"/tools/check_dist.py tools/check_dist.py
