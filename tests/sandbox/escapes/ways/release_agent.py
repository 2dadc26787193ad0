"""A control group's release_agent is run by the kernel, as root, outside (CVE-2022-0492)."""
# weakened: privileged --user 0

import glob
import os

from inside import absent, escaped, libc

os.makedirs("/tmp/agents", exist_ok=True)
with open("/proc/filesystems") as file:
    if "\tcgroup\n" not in file.read():
        absent("this kernel has control groups of version 2 only")
for controller in (b"rdma", b"memory", b"pids", b"cpu", b"devices"):
    if libc.mount(b"cgroup", b"/tmp/agents", b"cgroup", 0, controller) == 0:
        break
for path in ["/tmp/agents/release_agent", *glob.glob("/sys/fs/cgroup/*/release_agent")]:
    try:
        os.close(os.open(path, os.O_WRONLY))
        escaped(f"{path} can be written")
    except OSError as error:
        print(f"{path}: {error.strerror}")
