#!/bin/bash
set -euo pipefail
cd /testbed
python3 - <<'PYTHON'
from pathlib import Path

file = Path("stopwatch/format.py")
file.write_text(file.read_text().replace("divmod(int(seconds), 360)", "divmod(int(seconds), 3600)"))
PYTHON
