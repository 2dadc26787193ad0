#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist portion portion-2.6.0.tar.gz 6fb538b57a92058f0edd360667694448aa3fc028ab97e41e3091359d14ba4dd5 "$new/tree"
cd /testbed
install -D "$new/tree"/portion/dict.py portion/dict.py
