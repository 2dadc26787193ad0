"""/sys: the kernel's uevent helper, power states, memory and CPUs going offline."""
# weakened: privileged --user 0

import glob

from inside import writable

writable(
    [
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        *glob.glob("/sys/devices/system/cpu/cpu*/online"),
        *glob.glob("/sys/block/*/uevent"),
    ]
)
