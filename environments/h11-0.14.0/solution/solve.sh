#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist h11 h11-0.15.0.tar.gz 2a7db2d2beffd4e6c6bbe3a64305ab77d89087976e8aed8fdcff4b054744e72f "$new/tree"
cd /testbed
install -D "$new/tree"/h11/_connection.py h11/_connection.py
install -D "$new/tree"/h11/_events.py h11/_events.py
install -D "$new/tree"/h11/_headers.py h11/_headers.py
install -D "$new/tree"/h11/_state.py h11/_state.py
install -D "$new/tree"/h11/_version.py h11/_version.py
