#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist python-dotenv python_dotenv-1.2.3.tar.gz a20a594dabeaa385725aa239d5244871c143ecb356add8a20fcf23773a6c3a35 "$new/tree"
cd /testbed
install -D "$new/tree"/src/dotenv/cli.py src/dotenv/cli.py
install -D "$new/tree"/src/dotenv/main.py src/dotenv/main.py
install -D "$new/tree"/src/dotenv/parser.py src/dotenv/parser.py
install -D "$new/tree"/src/dotenv/version.py src/dotenv/version.py
