#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist toolz toolz-0.12.0.tar.gz 88c570861c440ee3f2f6037c4654613228ff40c93a6c25e0eba70d17282c6194 "$new/tree"
cd /testbed
install -D "$new/tree"/tlz/_build_tlz.py tlz/_build_tlz.py
install -D "$new/tree"/toolz/_version.py toolz/_version.py
install -D "$new/tree"/toolz/curried/operator.py toolz/curried/operator.py
install -D "$new/tree"/toolz/dicttoolz.py toolz/dicttoolz.py
install -D "$new/tree"/toolz/functoolz.py toolz/functoolz.py
install -D "$new/tree"/toolz/itertoolz.py toolz/itertoolz.py
install -D "$new/tree"/toolz/sandbox/core.py toolz/sandbox/core.py
install -D "$new/tree"/versioneer.py versioneer.py
