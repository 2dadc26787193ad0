"""Mounting anything: the first step of most ways out."""
# weakened: privileged --user 0

import os

from inside import escaped, libc

os.makedirs("/tmp/mounted", exist_ok=True)
if libc.mount(b"none", b"/tmp/mounted", b"tmpfs", 0, None) == 0:
    escaped("a tmpfs could be mounted")
if libc.mount(b"none", b"/tmp/mounted", b"proc", 0, None) == 0:
    escaped("a proc could be mounted")
