"""A client of Redis: what it checks is named by its first argument; prints how much it moved, over how many connections.

usage: redis_client.py content PORT | ends PORT | replica PORT REPLICA | same PORT REPLICA | cluster PORT PORT PORT BUS BUS BUS
"""

import hashlib
import os
import socket
import struct
import sys
import threading
import time

PORTS = [int(word) for word in sys.argv[2:]]
BIG = 5_000_000
# Nothing that works takes so long.
LIMIT = 40


class Refused(Exception):
    pass


class Connection:
    def __init__(self, port=PORTS[0]):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.buffer = bytearray()

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def more(self):
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise EOFError("redis has closed the connection")
        self.buffer += piece

    def take(self, length):
        while len(self.buffer) < length:
            self.more()
        taken = bytes(self.buffer[:length])
        del self.buffer[:length]
        return taken

    def line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.more()
        return self.take(end + 2)[:-2]

    def answer(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise Refused(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.take(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"+":
            return rest
        raise ValueError(f"no answer of redis': {line[:60]!r}")

    def ask(self, *words):
        self.send(*words)
        return self.answer()


def expect(seen, expected):
    if seen != expected:
        raise ValueError(f"expected {repr(expected)[:80]} and saw {repr(seen)[:80]}")


def content():
    """Values of all sizes, a slow reader, both directions at once, and a message to fifty subscribers."""
    client = Connection()
    client.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0 pubsub 0 0 0")
    moved = 0
    for i in range(60):
        value = os.urandom([1, 100, 4000, 65536, 500_000, BIG][i % 6])
        expect(client.ask("SET", f"k{i}", value), b"OK")
        expect(client.ask("GET", f"k{i}"), value)
        moved += 2 * len(value)

    big = os.urandom(BIG)
    client.ask("SET", "big", big)
    for _ in range(20):
        client.send("GET", "big")
    time.sleep(0.5)
    for _ in range(20):
        expect(client.answer(), big)

    both = Connection()
    for _ in range(10):
        expect(both.ask("PING"), b"PONG")

    def write():
        for i in range(20):
            both.send("SET", f"p{i}", i.to_bytes(4, "big") + big[4:])
            both.send("GET", "big")

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    for _ in range(20):
        expect(both.answer(), b"OK")
        expect(both.answer(), big)
    writer.join()
    for i in range(20):
        expect(both.ask("GET", f"p{i}"), i.to_bytes(4, "big") + big[4:])
    moved += 82 * BIG

    subscribers = [Connection() for _ in range(50)]
    for other in subscribers:
        other.ask("SUBSCRIBE", "c")
        for _ in range(5):
            other.ask("PING")
    messages = [b"%d " % i + os.urandom(20_000) for i in range(100)]
    for message in messages:
        expect(client.ask("PUBLISH", "c", message), len(subscribers))
    for other in subscribers:
        for message in messages:
            expect(other.answer(), [b"message", b"c", message])
            moved += len(message)
    print(moved, 2 + len(subscribers))


def ends():
    """Clients that vanish in the middle, that the server throws out, and that it kills for what they do not read."""
    client = Connection()
    big = os.urandom(BIG)
    client.ask("SET", "big", big)
    for i in range(30):
        other = Connection()
        for _ in range(5):
            other.ask("PING")
        for _ in range(3):
            other.send("GET", "big")
        if i % 3 == 0:
            other.socket.recv(100_000)
        elif i % 3 == 1:
            other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            other.socket.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1000000\r\n" + big[:500_000])
        other.socket.close()
        expect(client.ask("GET", "big"), big)
    expect(client.ask("EXISTS", "half"), 0)

    blocked = Connection()
    for _ in range(5):
        blocked.ask("PING")
    number = blocked.ask("CLIENT", "ID")
    blocked.send("BLPOP", "nothing", 0)
    time.sleep(0.2)
    expect(client.ask("CLIENT", "KILL", "ID", number), 1)
    expect(blocked.socket.recv(100), b"")

    client.ask("CONFIG", "SET", "client-output-buffer-limit", f"normal {4 * BIG} 0 0")
    greedy = Connection()
    for _ in range(5):
        greedy.ask("PING")
    try:
        for _ in range(100):
            greedy.send("GET", "big")
    except ConnectionError:
        pass  # thrown out already
    await_that("the client that does not read is thrown out", lambda: clients(client) == 1)
    seen = 0
    try:
        while piece := greedy.socket.recv(1 << 18):
            seen += len(piece)
    except ConnectionError:
        pass
    if seen > 90 * BIG:
        raise ValueError("a client that was thrown out has read everything")


def clients(client):
    return client.ask("CLIENT", "LIST").count(b"\n")


def await_that(what, holds):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"never: {what}")
        time.sleep(0.02)


def caught_up(master, replica):
    """Whether the replica has all of what the master was told before."""
    def offset(connection, name):
        lines = connection.ask("INFO", "replication").split(b"\r\n")
        return next((line for line in lines if line.startswith(name)), b":-1").split(b":")[1]

    link = b"master_link_status:up" in replica.ask("INFO", "replication")
    return link and offset(master, b"master_repl_offset") == offset(replica, b"slave_repl_offset")


def fill(master, first):
    for i in range(first, first + 40):
        master.ask("SET", f"r{i}", hashlib.md5(b"%d" % i).digest() * 30_000)


def replica():
    """A full copy, and what is written while it is made."""
    master, copy = Connection(), Connection(PORTS[1])
    fill(master, 0)
    copy.ask("REPLICAOF", "127.0.0.1", PORTS[0])
    fill(master, 40)
    same(master, copy)
    # The link goes and comes again, by a partial copy or a whole one.
    for turn in range(3):
        master.ask("CLIENT", "KILL", "TYPE", "replica")
        fill(master, 80 + 40 * turn)
        same(master, copy)
    print(80 * 30_000 * 16, 1)


def same(master=None, copy=None):
    master, copy = master or Connection(), copy or Connection(PORTS[1])
    await_that("the replica has everything", lambda: caught_up(master, copy))
    expect(copy.ask("DBSIZE"), master.ask("DBSIZE"))
    expect(copy.ask("DEBUG", "DIGEST"), master.ask("DEBUG", "DIGEST"))


def cluster():
    """Three masters: keys are found by their redirections, and slots move with their keys."""
    nodes = [Connection(port) for port in PORTS]
    for i, node in enumerate(nodes):
        last = 16384 * (i + 1) // 3 - 1
        node.ask("CLUSTER", "ADDSLOTSRANGE", 16384 * i // 3, last)
        for port, bus in zip(PORTS, buses):
            node.ask("CLUSTER", "MEET", "127.0.0.1", port, bus)
    for node in nodes:
        await_that("the cluster is whole", lambda: b"cluster_state:ok" in node.ask("CLUSTER", "INFO"))
        await_that("all are known", lambda: b"cluster_known_nodes:3" in node.ask("CLUSTER", "INFO"))

    def ask(*words):
        node = nodes[0]
        for _ in range(5):
            try:
                return node.ask(*words)
            except Refused as refused:
                kind, _, place = str(refused).split()
                expect(kind, "MOVED")
                node = nodes[PORTS.index(int(place.rsplit(":", 1)[1]))]
        raise ValueError(f"{words[:2]} is redirected for ever")

    for i in range(300):
        ask("SET", f"c{i}", hashlib.md5(b"%d" % i).digest() * (1 + i * 100))
    for i in range(300):
        expect(ask("GET", f"c{i}"), hashlib.md5(b"%d" % i).digest() * (1 + i * 100))
    held = [node.ask("DBSIZE") for node in nodes]
    expect(sum(held), 300)
    # MIGRATE moves values from server to server, over a connection of its own.
    source, target = nodes[0], nodes[1]
    keys = [key for key in source.ask("KEYS", "*")][:60]
    names = [node.ask("CLUSTER", "MYID") for node in nodes]
    for key in keys:
        slot = source.ask("CLUSTER", "KEYSLOT", key)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
        present = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if present:
            expect(source.ask("MIGRATE", "127.0.0.1", PORTS[1], "", 0, 20_000, "KEYS", *present), b"OK")
        for node in nodes:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[1])
    for i in range(300):
        expect(ask("GET", f"c{i}"), hashlib.md5(b"%d" % i).digest() * (1 + i * 100))
    print(2 * 16 * 100 * 300 * 299 // 2, 3)


buses = PORTS[3:]
if sys.argv[1] == "cluster":
    PORTS = PORTS[:3]
{"content": content, "ends": ends, "replica": replica, "same": same, "cluster": cluster}[sys.argv[1]]()
