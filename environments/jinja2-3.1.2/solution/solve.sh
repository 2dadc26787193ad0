#!/bin/bash
# The reference solution: the newer release's source files; tests, docs and metadata stay as they are.
set -euo pipefail
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 /usr/local/bin/fetch-sdist jinja2 Jinja2-3.1.3.tar.gz ac8bd6544d4bb2c9792bf3a159e80bba8fda7f07e81bc3aed565432d5925ba90 "$new/tree"
cd /testbed
install -D "$new/tree"/requirements/build.txt requirements/build.txt
install -D "$new/tree"/requirements/dev.txt requirements/dev.txt
install -D "$new/tree"/requirements/docs.txt requirements/docs.txt
install -D "$new/tree"/requirements/tests.txt requirements/tests.txt
install -D "$new/tree"/requirements/typing.txt requirements/typing.txt
install -D "$new/tree"/src/jinja2/__init__.py src/jinja2/__init__.py
install -D "$new/tree"/src/jinja2/async_utils.py src/jinja2/async_utils.py
install -D "$new/tree"/src/jinja2/compiler.py src/jinja2/compiler.py
install -D "$new/tree"/src/jinja2/environment.py src/jinja2/environment.py
install -D "$new/tree"/src/jinja2/ext.py src/jinja2/ext.py
install -D "$new/tree"/src/jinja2/filters.py src/jinja2/filters.py
install -D "$new/tree"/src/jinja2/loaders.py src/jinja2/loaders.py
install -D "$new/tree"/src/jinja2/nativetypes.py src/jinja2/nativetypes.py
install -D "$new/tree"/src/jinja2/parser.py src/jinja2/parser.py
install -D "$new/tree"/src/jinja2/runtime.py src/jinja2/runtime.py
install -D "$new/tree"/src/jinja2/utils.py src/jinja2/utils.py
