#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist asteval asteval-1.0.8.tar.gz 7175134331726df0e1569f4ab5fa59266192cf1b365db0ff463c978842075cbb "$new/tree"
cd /testbed
install -D "$new/tree"/asteval/asteval.py asteval/asteval.py
install -D "$new/tree"/asteval/astutils.py asteval/astutils.py
install -D "$new/tree"/asteval/version.py asteval/version.py
