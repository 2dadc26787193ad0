#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist toolz toolz-1.1.0.tar.gz 27a5c770d068c110d9ed9323f24f1543e83b2f300a687b7891c1a6d56b697b5b "$new/tree"
cd /testbed
install -D "$new/tree"/tlz/_build_tlz.py tlz/_build_tlz.py
install -D "$new/tree"/toolz/__init__.py toolz/__init__.py
install -D "$new/tree"/toolz/curried/operator.py toolz/curried/operator.py
install -D "$new/tree"/toolz/functoolz.py toolz/functoolz.py
install -D "$new/tree"/toolz/itertoolz.py toolz/itertoolz.py
install -D "$new/tree"/toolz/sandbox/core.py toolz/sandbox/core.py
rm toolz/_version.py
