#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist python-dotenv python_dotenv-1.2.1.tar.gz 42667e897e16ab0d66954af0e60a9caa94f0fd4ecf3aaf6d2d260eec1aa36ad6 "$new/tree"
cd /testbed
install -D "$new/tree"/src/dotenv/main.py src/dotenv/main.py
install -D "$new/tree"/src/dotenv/version.py src/dotenv/version.py
