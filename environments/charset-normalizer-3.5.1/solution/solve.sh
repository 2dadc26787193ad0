#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist charset-normalizer charset_normalizer-3.5.2.tar.gz 39de2a259fc954455c57274dc94c79d5842774e1247a016aff30bc0efed0f4ef "$new/tree"
cd /testbed
install -D "$new/tree"/_build_hook/backend.py _build_hook/backend.py
install -D "$new/tree"/src/charset_normalizer/constant.py src/charset_normalizer/constant.py
install -D "$new/tree"/src/charset_normalizer/md.py src/charset_normalizer/md.py
install -D "$new/tree"/src/charset_normalizer/md.pyx src/charset_normalizer/md.pyx
install -D "$new/tree"/src/charset_normalizer/version.py src/charset_normalizer/version.py
