#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist inflect inflect-7.4.0.tar.gz 904baa17cc2cb74827a6c27b95692e95670dadc72b208b3e8c1c05aeed47026b "$new/tree"
cd /testbed
install -D "$new/tree"/inflect/__init__.py inflect/__init__.py
install -D "$new/tree"/mypy.ini mypy.ini
install -D "$new/tree"/ruff.toml ruff.toml
