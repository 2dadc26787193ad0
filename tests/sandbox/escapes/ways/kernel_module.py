"""Loading a kernel module."""
# weakened: privileged --user 0

import errno

from inside import absent, escaped, syscall

result = syscall((175, 105), b"not a module", 12, b"")
if result == -errno.ENOSYS:
    absent("this kernel loads no modules, or says so")
if result != -errno.EPERM:
    escaped(f"init_module looked at what it was given (errno {-result})")
print("init_module: not permitted")
