"""Raising one's own limits through the control group's files."""
# weakened: privileged --user 0

import glob
import os

from inside import absent, escaped

names = ("memory.limit_in_bytes", "memory.max", "pids.max", "cpu.max", "cpu.cfs_quota_us", "cgroup.procs")
found = [path for name in names for path in glob.glob(f"/sys/fs/cgroup/{name}") + glob.glob(f"/sys/fs/cgroup/*/{name}")]
if not found:
    absent("no control group is in sight")
for path in found:
    try:
        os.close(os.open(path, os.O_WRONLY))
        escaped(f"{path} can be written")
    except OSError as error:
        print(f"{path}: {error.strerror}")
