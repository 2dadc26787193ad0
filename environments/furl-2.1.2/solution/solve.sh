#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist furl furl-2.1.3.tar.gz 5a6188fe2666c484a12159c18be97a1977a71d632ef5bb867ef15f54af39cc4e "$new/tree"
cd /testbed
install -D "$new/tree"/furl/__version__.py furl/__version__.py
install -D "$new/tree"/furl/furl.py furl/furl.py
