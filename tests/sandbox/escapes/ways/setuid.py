"""Programs with the set-uid bit make their caller root, if the kernel lets them."""
# weakened: --user 1000

import os
import subprocess
import time

from inside import absent, escaped

found = subprocess.run(
    "find / -xdev -perm -4000 -user root -type f 2>/dev/null", shell=True, capture_output=True, text=True
).stdout.split()
found += [path for path in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd") if os.path.exists(path)]
if not found:
    absent("no program has the set-uid bit")
for path in found:
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        time.sleep(0.1)
        try:
            with open(f"/proc/{program.pid}/status") as file:
                uid = next(line for line in file if line.startswith("Uid:")).split()[2]
        except OSError as error:
            uid = error.strerror
        program.kill()
    if uid == "0" and os.getuid() != 0:
        escaped(f"{path} ran as root")
    print(f"{path}: effective user {uid}")
