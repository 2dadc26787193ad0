"""Kernel keyrings are shared by all who have a user id, inside or outside."""
# weakened: --security-opt seccomp=unconfined

import ctypes

from inside import escaped, syscall

USER_SESSION_KEYRING = -5
key = syscall((248, 217), b"user", b"agentgym", b"x", ctypes.c_size_t(1), ctypes.c_int(USER_SESSION_KEYRING))
if key > 0:
    escaped(f"key {key} was added to the user's keyring")
print(f"add_key: errno {-key}")
