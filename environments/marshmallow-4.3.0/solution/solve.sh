#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist marshmallow marshmallow-4.3.1.tar.gz fb6b8048af08d4ab061610d5b7d3696a7e4c95337dbda880edb9f95812cabc20 "$new/tree"
cd /testbed
install -D "$new/tree"/src/marshmallow/fields.py src/marshmallow/fields.py
install -D "$new/tree"/src/marshmallow/schema.py src/marshmallow/schema.py
install -D "$new/tree"/src/marshmallow/validate.py src/marshmallow/validate.py
