"""Tracing PID 1, which ends the sandbox when its time is over."""
# weakened: --init --cap-add SYS_PTRACE --user 0

from inside import escaped, syscall

SEIZE = 0x4206  # attaches without stopping it
result = syscall((101, 117), SEIZE, 1, 0, 0)
if result == 0:
    escaped("PID 1 can be traced")
print(f"ptrace: errno {-result}")
