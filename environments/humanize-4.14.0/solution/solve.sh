#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist humanize humanize-4.15.0.tar.gz 1dd098483eb1c7ee8e32eb2e99ad1910baefa4b75c3aff3a82f4d78688993b10 "$new/tree"
cd /testbed
install -D "$new/tree"/src/humanize/i18n.py src/humanize/i18n.py
install -D "$new/tree"/src/humanize/locale/fr_FR/LC_MESSAGES/humanize.mo src/humanize/locale/fr_FR/LC_MESSAGES/humanize.mo
install -D "$new/tree"/src/humanize/locale/fr_FR/LC_MESSAGES/humanize.po src/humanize/locale/fr_FR/LC_MESSAGES/humanize.po
install -D "$new/tree"/src/humanize/number.py src/humanize/number.py
install -D "$new/tree"/src/humanize/time.py src/humanize/time.py
