#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist semver semver-3.0.4.tar.gz afc7d8c584a5ed0a11033af086e8af226a9c0b206f313e0301f8dd7b6b589602 "$new/tree"
cd /testbed
install -D "$new/tree"/src/semver/__about__.py src/semver/__about__.py
install -D "$new/tree"/src/semver/__main__.py src/semver/__main__.py
install -D "$new/tree"/src/semver/_deprecated.py src/semver/_deprecated.py
install -D "$new/tree"/src/semver/version.py src/semver/version.py
