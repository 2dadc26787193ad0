#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist h11 h11-0.12.0.tar.gz 47222cb6067e4a307d535814917cd98fd0a57b6788ce715755fa2b6c28b56042 "$new/tree"
cd /testbed
install -D "$new/tree"/fuzz/afl-server.py fuzz/afl-server.py
install -D "$new/tree"/h11/_connection.py h11/_connection.py
install -D "$new/tree"/h11/_events.py h11/_events.py
install -D "$new/tree"/h11/_headers.py h11/_headers.py
install -D "$new/tree"/h11/_readers.py h11/_readers.py
install -D "$new/tree"/h11/_receivebuffer.py h11/_receivebuffer.py
install -D "$new/tree"/h11/_state.py h11/_state.py
install -D "$new/tree"/h11/_util.py h11/_util.py
install -D "$new/tree"/h11/_version.py h11/_version.py
install -D "$new/tree"/h11/_writers.py h11/_writers.py
