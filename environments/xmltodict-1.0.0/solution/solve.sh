#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist xmltodict xmltodict-1.0.1.tar.gz 43f06e35e03f0f3ce622b9bd5e9652570a923db2906d5d4b830b76eafcafddcb "$new/tree"
cd /testbed
install -D "$new/tree"/xmltodict.py xmltodict.py
