"""The host's disk, or a loop device, through a device node made here."""
# weakened: --cap-add MKNOD --user 0 --device-cgroup-rule=b\ *:*\ rwm

import os
import stat

from inside import HOST, escaped

LOOP = (7, 0)
for place in ("/tmp", "/testbed", "/dev", "/dev/shm", "/run", "/var/tmp"):
    for number in (HOST["disk"], LOOP):
        path = f"{place}/agentgym-disk-{number[0]}"
        try:
            os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(*number))
            os.close(os.open(path, os.O_RDONLY))
            escaped(f"{path} is a disk of the host's")
        except OSError as error:
            print(f"{path}: {error.strerror}")
        finally:
            if os.path.lexists(path):
                os.unlink(path)
