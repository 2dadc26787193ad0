#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist croniter croniter-6.2.1.tar.gz 358e61e82698b905debe039223fdd436ab4a50af51e9f2bc0c5239c35ccd468e "$new/tree"
cd /testbed
install -D "$new/tree"/src/croniter/croniter.py src/croniter/croniter.py
