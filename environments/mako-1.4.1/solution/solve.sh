#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist mako mako-1.4.2.tar.gz 7227a060ee3af55a493af61d73d6beef13044b81dba9586736c13945f09464ce "$new/tree"
cd /testbed
install -D "$new/tree"/mako/__init__.py mako/__init__.py
install -D "$new/tree"/mako/template.py mako/template.py
