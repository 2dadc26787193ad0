"""Raw and packet sockets forge addresses and read what is not meant for us."""
# weakened: --cap-add NET_RAW --user 0

import socket

from inside import escaped

for family, kind, protocol in ((socket.AF_PACKET, socket.SOCK_RAW, 0x0300), (socket.AF_INET, socket.SOCK_RAW, 1)):
    try:
        socket.socket(family, kind, protocol).close()
        escaped(f"a raw socket of family {family} could be made")
    except OSError as error:
        print(f"family {family}: {error}")
