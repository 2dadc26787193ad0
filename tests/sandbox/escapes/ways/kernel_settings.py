"""/proc/sys: the program the kernel runs to load modules, and more."""
# weakened: privileged --user 0

from inside import writable

writable(
    [
        f"/proc/sys/{name}"
        for name in ("kernel/modprobe", "kernel/hotplug", "kernel/hostname", "vm/panic_on_oom", "fs/file-max")
    ]
)
