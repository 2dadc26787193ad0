#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist hyperlink hyperlink-19.0.0.tar.gz 4288e34705da077fada1111a24a0aa08bb1e76699c9ce49876af722441845654 "$new/tree"
cd /testbed
install -D "$new/tree"/hyperlink/_url.py hyperlink/_url.py
