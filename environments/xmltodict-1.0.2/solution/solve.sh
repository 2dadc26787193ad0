#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist xmltodict xmltodict-1.0.3.tar.gz 3bf1f49c7836df34cf6d9cc7e690c4351f7dfff2ab0b8a1988bba4a9b9474909 "$new/tree"
cd /testbed
install -D "$new/tree"/xmltodict.py xmltodict.py
