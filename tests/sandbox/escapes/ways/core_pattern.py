"""core_pattern names the program the kernel runs, as root and outside, when a process here crashes."""
# weakened: privileged --user 0

from inside import writable

writable(["/proc/sys/kernel/core_pattern"])
