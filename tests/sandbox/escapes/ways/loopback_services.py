"""What listens on the host's loopback trusts whoever comes from there."""
# weakened: --network host

import socket

from inside import HOST, answers

try:
    with socket.create_connection(("127.0.0.1", HOST["loopback"]), timeout=2) as connection:
        answers(connection)
except OSError as error:
    print(error)
