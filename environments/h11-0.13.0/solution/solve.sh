#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist h11 h11-0.14.0.tar.gz 8f19fbbe99e72420ff35c00b27a34cb9937e902a8b810e2c88300c6f0a3b699d "$new/tree"
cd /testbed
install -D "$new/tree"/h11/_abnf.py h11/_abnf.py
install -D "$new/tree"/h11/_connection.py h11/_connection.py
install -D "$new/tree"/h11/_headers.py h11/_headers.py
install -D "$new/tree"/h11/_readers.py h11/_readers.py
install -D "$new/tree"/h11/_state.py h11/_state.py
install -D "$new/tree"/h11/_version.py h11/_version.py
install -D "$new/tree"/h11/_writers.py h11/_writers.py
