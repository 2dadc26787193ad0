#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist bleach bleach-6.3.0.tar.gz 6f3b91b1c0a02bb9a78b5a454c92506aa0fdf197e1d5e114d2e00c6f64306d22 "$new/tree"
cd /testbed
install -D "$new/tree"/bleach/__init__.py bleach/__init__.py
install -D "$new/tree"/bleach/_vendor/html5lib/constants.py bleach/_vendor/html5lib/constants.py
install -D "$new/tree"/bleach/_vendor/html5lib/filters/sanitizer.py bleach/_vendor/html5lib/filters/sanitizer.py
install -D "$new/tree"/bleach/_vendor/vendor_install.sh bleach/_vendor/vendor_install.sh
install -D "$new/tree"/bleach/sanitizer.py bleach/sanitizer.py
