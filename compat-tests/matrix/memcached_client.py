"""A client of memcached: values both ways, compared byte by byte; prints how much was moved, and over how many connections.

usage: memcached_client.py PORT content | ends
"""

import os
import socket
import struct
import sys
import threading
import time

PORT = int(sys.argv[1])
BIG = 900_000
ASKED = 120


class Connection:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.buffer = bytearray()

    def more(self):
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise EOFError("memcached has closed the connection")
        self.buffer += piece

    def line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.more()
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    def send(self, *pieces):
        self.socket.sendall(b"".join(pieces))

    def set(self, key, value):
        self.send(b"set %s 0 0 %d\r\n" % (key, len(value)), value, b"\r\n")
        expect(self.line(), b"STORED")

    def get(self, key):
        self.send(b"get %s\r\n" % key)
        return self.value(key)

    def value(self, key):
        words = self.line().split()
        expect(words[:2], [b"VALUE", key])
        length = int(words[3])
        while len(self.buffer) < length + 2:
            self.more()
        value = bytes(self.buffer[:length])
        del self.buffer[: length + 2]
        expect(self.line(), b"END")
        return value


def expect(seen, expected):
    if seen != expected:
        raise ValueError(f"expected {expected[:60]!r} and saw {seen[:60]!r}")


def content():
    """Values of all sizes; a reader that lets everything wait; both directions at once."""
    moved = 0
    client = Connection()
    sizes = [0, 1, 100, 4000, 65536, 300_000, BIG]
    values = {b"k%d" % i: os.urandom(sizes[i % len(sizes)]) for i in range(70)}
    for key, value in values.items():
        client.set(key, value)
    for key, value in values.items():
        expect(client.get(key), value)
        moved += 2 * len(value)

    big = os.urandom(BIG)
    client.set(b"big", big)
    client.send(b"get big\r\n" * ASKED)
    time.sleep(0.5)
    for _ in range(ASKED):
        expect(client.value(b"big"), big)

    both = Connection()
    for _ in range(10):
        expect(both.get(b"big"), big)

    def write():
        for i in range(ASKED):
            value = b"set p%d 0 0 %d noreply\r\n" % (i, BIG)
            both.send(value, i.to_bytes(4, "big"), big[4:], b"\r\nget big\r\n")

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    for _ in range(ASKED):
        expect(both.value(b"big"), big)
    writer.join()
    for i in range(ASKED):
        expect(both.get(b"p%d" % i), i.to_bytes(4, "big") + big[4:])
    moved += (4 * ASKED + 11) * BIG
    print(moved, 2)


def ends():
    """Clients that vanish in the middle, with and without a reset; others are served on."""
    big = os.urandom(BIG)
    client = Connection()
    client.set(b"big", big)
    for i in range(30):
        other = Connection()
        for _ in range(5):
            expect(other.get(b"big"), big)
        other.send(b"get big\r\n" * 20)
        if i % 3 == 0:
            other.socket.recv(100_000)
        elif i % 3 == 1:
            other.send(b"set half 0 0 1000000\r\n", big[:500_000])
        else:
            other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.socket.close()
        expect(client.get(b"big"), big)
    client.send(b"get half\r\n")
    expect(client.line(), b"END")


{"content": content, "ends": ends}[sys.argv[2]]()
