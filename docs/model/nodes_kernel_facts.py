#!/usr/bin/env python3
"""What docs/TCP-BETWEEN-NODES.md needs of Linux, tried on the running kernel. Usage: python3 nodes_kernel_facts.py (status 0: all
is so)."""
import fcntl
import os
import signal
import socket
import struct
import sys
import termios
import time

AT_ONCE = struct.pack('ii', 1, 0)


def pair():
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen(1)
    client = socket.socket()
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return client, server


def read(end):
    """What a socket brings, up to its end or error."""
    end.settimeout(2)
    found = b''
    while True:
        try:
            more = end.recv(100)
        except OSError as error:
            return found, type(error).__name__
        if not more:
            return found, 'end'
        found += more


def owner_is_killed(prepare):
    """A process that has the only descriptor of one end prepares it and is killed; what the other end finds."""
    client, server = pair()
    pid = os.fork()
    if pid == 0:
        server.close()
        prepare(client)
        time.sleep(9)
        os._exit(0)
    client.close()
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return read(server)


def lingers(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)


def lingered(end):
    lingers(end)
    end.send(b'owed')
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))


def late_record():
    """A byte for a closed socket: what it had sent and was not acknowledged is taken along."""
    client, server = pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.setblocking(False)
    sent = 0
    try:
        while True:
            sent += server.send(b'a' * 65536)
    except BlockingIOError:
        server.close()
    client.send(b'm')
    time.sleep(0.1)
    found, how = read(client)
    return how == 'ConnectionResetError' and len(found) < sent


def taken_is_acknowledged():
    """SIOCOUTQ is 0 when the other kernel has everything, read or not."""
    client, _server = pair()
    client.send(b'raw')
    time.sleep(0.1)
    return struct.unpack('i', fcntl.ioctl(client, termios.TIOCOUTQ, b'\0' * 4))[0] == 0


FACTS = [
    ('who is killed with SO_LINGER 0 ends by a reset, behind what had arrived',
     lambda: owner_is_killed(lambda end: (end.send(b'raw'), lingers(end))) == (b'raw', 'ConnectionResetError')),
    ('with SO_LINGER put back, by FIN behind all that was sent', lambda: owner_is_killed(lingered) == (b'owed', 'end')),
    ('SIOCOUTQ is 0 when the other kernel has all, though nobody has read it', taken_is_acknowledged),
    ('a byte that comes to a closed socket takes along what that one had sent', late_record),
]


def main():
    results = [fact() for _, fact in FACTS]
    for (what, _), is_so in zip(FACTS, results):
        print(f"{'as expected' if is_so else '*** UNEXPECTED ***'} | {what}")
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
