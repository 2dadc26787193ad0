"""/proc/sysrq-trigger reboots or crashes the host."""
# weakened: privileged --user 0

from inside import writable

writable(["/proc/sysrq-trigger"])
