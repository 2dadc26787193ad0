"""The engine's own socket: whoever reaches it starts a privileged container."""
# weakened: -v /var/run/docker.sock:/var/run/docker.sock --user 0

import socket

from inside import escaped

for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"):
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            escaped(f"{path} answers")
    except OSError as error:
        print(f"{path}: {error.strerror}")
