"""Programs and maps inside the kernel."""
# weakened: privileged --user 0

import ctypes
import struct

from inside import escaped, syscall

ARRAY_MAP = struct.pack("=IIII", 2, 4, 8, 1) + bytes(112)
result = syscall((321, 280), 0, ctypes.c_char_p(ARRAY_MAP), ctypes.c_uint(len(ARRAY_MAP)))
if result >= 0:
    escaped("a bpf map could be made")
print(f"bpf: errno {-result}")
