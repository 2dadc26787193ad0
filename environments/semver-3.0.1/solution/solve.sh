#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist semver semver-3.0.2.tar.gz 6253adb39c70f6e51afed2fa7152bcd414c411286088fb4b9effb133885ab4cc "$new/tree"
cd /testbed
install -D "$new/tree"/src/semver/__about__.py src/semver/__about__.py
install -D "$new/tree"/src/semver/version.py src/semver/version.py
