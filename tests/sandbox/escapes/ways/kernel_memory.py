"""/proc/kcore, /dev/mem and /dev/kmem show the kernel's memory, other sandboxes included."""
# weakened: privileged --user 0

import os

from inside import absent, escaped

there = [path for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port") if os.path.exists(path)]
if not there:
    absent("no file shows kernel memory")
for path in there:
    try:
        with open(path, "rb", buffering=0) as file:
            if file.read(64):
                escaped(f"{path} can be read")
    except OSError as error:
        print(f"{path}: {error.strerror}")
