"""The cloud's metadata service hands out the host's credentials; the host's own addresses are as near."""
# weakened: --network bridge

import socket

from inside import HOST, answers, escaped

for address in [("169.254.169.254", 80), ("100.100.100.200", 80), ("169.254.170.2", 80)]:
    try:
        socket.create_connection(address, timeout=2).close()
        escaped(f"{address} answers")
    except OSError as error:
        print(f"{address}: {error}")
for address in HOST["tcp"]:
    try:
        with socket.create_connection(tuple(address), timeout=2) as connection:
            answers(connection)
    except OSError as error:
        print(f"{address}: {error}")
