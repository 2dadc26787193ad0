#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist asteval asteval-1.0.10.tar.gz 46a4ed13cc2e4a29a21418f89dedd57db70d98eb96db0fb4c441d4edb2f5afed "$new/tree"
cd /testbed
install -D "$new/tree"/asteval/asteval.py asteval/asteval.py
install -D "$new/tree"/asteval/astutils.py asteval/astutils.py
install -D "$new/tree"/asteval/version.py asteval/version.py
