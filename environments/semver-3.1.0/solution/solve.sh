#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist semver semver-3.1.1.tar.gz 149b26cabada6f63212f97e94505d21578cb1d280cf714827f328d5e70765fea "$new/tree"
cd /testbed
install -D "$new/tree"/src/semver/__about__.py src/semver/__about__.py
install -D "$new/tree"/src/semver/version.py src/semver/version.py
