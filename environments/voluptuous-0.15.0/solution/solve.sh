#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist voluptuous voluptuous-0.15.1.tar.gz 4ba7f38f624379ecd02666e87e99cb24b6f5997a28258d3302c761d1a2c35d00 "$new/tree"
cd /testbed
install -D "$new/tree"/voluptuous/__init__.py voluptuous/__init__.py
install -D "$new/tree"/voluptuous/schema_builder.py voluptuous/schema_builder.py
install -D "$new/tree"/voluptuous/validators.py voluptuous/validators.py
