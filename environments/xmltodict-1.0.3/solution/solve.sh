#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist xmltodict xmltodict-1.0.4.tar.gz 6d94c9f834dd9e44514162799d344d815a3a4faec913717a9ecbfa5be1bb8e61 "$new/tree"
cd /testbed
install -D "$new/tree"/xmltodict.py xmltodict.py
