"""The kernel's log holds addresses and what other programs did."""
# weakened: privileged --user 0

import ctypes

from inside import escaped, syscall

READ_ALL = 3
result = syscall((103, 116), READ_ALL, ctypes.create_string_buffer(4096), 4096)
if result > 0:
    escaped("the kernel's log can be read")
print(f"syslog: errno {-result}")
