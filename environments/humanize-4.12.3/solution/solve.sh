#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist humanize humanize-4.13.0.tar.gz 78f79e68f76f0b04d711c4e55d32bebef5be387148862cb1ef83d2b58e7935a0 "$new/tree"
cd /testbed
install -D "$new/tree"/src/humanize/_version.py src/humanize/_version.py
install -D "$new/tree"/src/humanize/filesize.py src/humanize/filesize.py
install -D "$new/tree"/src/humanize/time.py src/humanize/time.py
