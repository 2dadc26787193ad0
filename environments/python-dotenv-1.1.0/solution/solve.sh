#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist python-dotenv python_dotenv-1.1.1.tar.gz a8a6399716257f45be6a007360200409fce5cda2661e3dec71d23dc15f6189ab "$new/tree"
cd /testbed
install -D "$new/tree"/mkdocs.yml mkdocs.yml
install -D "$new/tree"/src/dotenv/cli.py src/dotenv/cli.py
install -D "$new/tree"/src/dotenv/main.py src/dotenv/main.py
install -D "$new/tree"/src/dotenv/version.py src/dotenv/version.py
