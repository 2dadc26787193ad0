#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist itsdangerous itsdangerous-2.1.1.tar.gz 7b7d3023cd35d9cb0c1fd91392f8c95c6fa02c59bf8ad64b8849be3401b95afb "$new/tree"
cd /testbed
install -D "$new/tree"/src/itsdangerous/__init__.py src/itsdangerous/__init__.py
install -D "$new/tree"/src/itsdangerous/timed.py src/itsdangerous/timed.py
