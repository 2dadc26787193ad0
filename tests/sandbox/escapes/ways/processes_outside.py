"""Processes outside can be seen, traced and read where the process namespace is shared."""
# weakened: --pid=host

import glob

from inside import HOST, escaped

for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as file:
            arguments = file.read()
    except OSError:
        continue
    if HOST["word"].encode() in arguments:
        escaped(f"{path} is a process of the host")
