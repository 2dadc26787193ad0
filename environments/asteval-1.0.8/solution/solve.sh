#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist asteval asteval-1.0.9.tar.gz 4f7323d63d9fbf89d7e1d5f8bb59b6c093970c15bb5926e6e67d0195858aa230 "$new/tree"
cd /testbed
install -D "$new/tree"/asteval/asteval.py asteval/asteval.py
install -D "$new/tree"/asteval/astutils.py asteval/astutils.py
install -D "$new/tree"/asteval/version.py asteval/version.py
