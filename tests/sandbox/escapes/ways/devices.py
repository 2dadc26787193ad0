"""Device files that are there already: disks, the kernel's log, the input of other programs."""
# weakened: privileged --user 0

import glob
import os
import stat

from inside import escaped

for path in filter(os.path.exists, glob.glob("/dev/*")):
    mode = os.stat(path).st_mode
    if stat.S_ISBLK(mode) or os.path.basename(path) in ("kmsg", "mem", "kvm", "fuse", "vsock", "net", "loop-control"):
        try:
            os.close(os.open(path, os.O_RDONLY))
            escaped(f"{path} can be opened")
        except OSError as error:
            print(f"{path}: {error.strerror}")
