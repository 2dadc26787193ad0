#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist dpath dpath-2.1.4.tar.gz 3380a77d0db4abf104125860ff6eb4bd07c97c65b81aad42a609717089a1bed0 "$new/tree"
cd /testbed
install -D "$new/tree"/dpath/segments.py dpath/segments.py
install -D "$new/tree"/dpath/types.py dpath/types.py
install -D "$new/tree"/dpath/version.py dpath/version.py
