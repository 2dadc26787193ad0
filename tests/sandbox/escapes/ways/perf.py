"""Watching the whole machine through performance counters."""
# weakened: privileged --user 0

import ctypes
import struct

from inside import escaped, syscall

CPU_CLOCK = struct.pack("=IIQ", 1, 112, 0) + bytes(96)
result = syscall((298, 241), ctypes.c_char_p(CPU_CLOCK), -1, 0, -1, 0)
if result >= 0:
    escaped("all that runs on CPU 0 can be sampled")
print(f"perf_event_open: errno {-result}")
