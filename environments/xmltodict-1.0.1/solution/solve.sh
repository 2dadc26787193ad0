#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist xmltodict xmltodict-1.0.2.tar.gz 54306780b7c2175a3967cad1db92f218207e5bc1aba697d887807c0fb68b7649 "$new/tree"
cd /testbed
install -D "$new/tree"/xmltodict.py xmltodict.py
