#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist semver semver-3.1.0.tar.gz 14bc073439513d7773662a338f4db9829cf16c12b74b9568e2d2689975fbd7fc "$new/tree"
cd /testbed
install -D "$new/tree"/CONTRIBUTORS CONTRIBUTORS
install -D "$new/tree"/src/semver/__about__.py src/semver/__about__.py
install -D "$new/tree"/src/semver/version.py src/semver/version.py
