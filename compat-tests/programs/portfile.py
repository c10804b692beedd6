"""What the Python programs share: the same PORTFILE protocol as common.h, from the standard library only."""

import os
import signal
import sys
import time

MODE = sys.argv[3] if len(sys.argv) > 3 else ""
ADDRESS = os.environ.get("COMPAT_LISTEN", "127.0.0.1")
signal.alarm(int(os.environ.get("COMPAT_ALARM", "25")))


def publish(port):
    """The server listens: let the client know where."""
    temporary = sys.argv[2] + ".tmp"
    with open(temporary, "w") as file:
        print(ADDRESS, port, file=file)
    os.rename(temporary, sys.argv[2])


def there():
    """(address, port) of the server, once it listens."""
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.002)
    with open(sys.argv[2]) as file:
        address, port = file.read().split()
    return address, int(port)


def message(number, length):
    """Bytes that both sides can compute."""
    return bytes((number * 7 + i * 13 + i // 251) & 0xFF for i in range(length))


def run(server, client):
    """Takes the role that the command line names."""
    (server if sys.argv[1] == "server" else client)()
