#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist itemadapter itemadapter-0.12.1.tar.gz a0431fe5b3f9d95b7e9a20e05789672bc733c173d9989dc9d515ba6b0b9b6a08 "$new/tree"
cd /testbed
install -D "$new/tree"/itemadapter/__init__.py itemadapter/__init__.py
install -D "$new/tree"/itemadapter/_json_schema.py itemadapter/_json_schema.py
