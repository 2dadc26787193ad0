"""A user namespace of one's own has all capabilities, and so much more of the kernel to attack."""
# weakened: --security-opt seccomp=unconfined

import os

from inside import escaped, libc

NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000
if libc.unshare(NEW_USER | NEW_MOUNTS) == 0:
    escaped("a user namespace could be made")
print(os.strerror(1))
