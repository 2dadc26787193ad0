"""A handler registered for a binary format runs for everybody's programs."""
# weakened: privileged --user 0

import os

from inside import libc, writable

if not os.path.exists("/proc/sys/fs/binfmt_misc/register"):
    libc.mount(b"binfmt_misc", b"/proc/sys/fs/binfmt_misc", b"binfmt_misc", 0, None)
writable(["/proc/sys/fs/binfmt_misc/register"])
