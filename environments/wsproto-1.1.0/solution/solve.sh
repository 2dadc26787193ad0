#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist wsproto wsproto-1.2.0.tar.gz ad565f26ecb92588a3e43bc3d96164de84cd9902482b130d0ddbaa9664a85065 "$new/tree"
cd /testbed
install -D "$new/tree"/src/wsproto/__init__.py src/wsproto/__init__.py
install -D "$new/tree"/src/wsproto/connection.py src/wsproto/connection.py
install -D "$new/tree"/src/wsproto/frame_protocol.py src/wsproto/frame_protocol.py
install -D "$new/tree"/src/wsproto/handshake.py src/wsproto/handshake.py
