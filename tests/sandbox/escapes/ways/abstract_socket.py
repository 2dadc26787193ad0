"""Unix sockets without a path belong to the network namespace; containerd once listened on one (CVE-2020-15257)."""
# weakened: --network host

import socket

from inside import HOST, answers

try:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + HOST["abstract"])
        answers(connection)
except OSError as error:
    print(error)
