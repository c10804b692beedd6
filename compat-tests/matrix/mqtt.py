"""Publishers and a subscriber of MQTT 3.1.1 at QoS 1. What was acknowledged, and what arrived, stands in files, a line each.

usage: mqtt.py publish PORT FILE FIRST COUNT | subscribe PORT FILE

A message is its number, and a length that follows from it. A publisher writes a number down when the broker has
acknowledged it; the subscriber, whose session outlives its connections, before it acknowledges.
"""

import hashlib
import os
import select
import socket
import sys
import time

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 1, 2, 3, 4, 8, 9
IN_FLIGHT = 50
SPAN = 20_000


class Connection:
    def __init__(self, port, name, clean):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        flags = bytes([2 if clean else 0])
        self.send(CONNECT << 4, text(b"MQTT") + b"\4" + flags + b"\0\0" + text(name))
        kind, body = self.packet()
        if kind >> 4 != CONNACK or body[1] != 0:
            raise ValueError(f"the broker refuses: {kind} {body!r}")

    def send(self, kind, body):
        length, left = b"", len(body)
        while True:
            left, digit = left >> 7, left & 127
            length += bytes([digit | (128 if left else 0)])
            if not left:
                break
        self.socket.sendall(bytes([kind]) + length + body)

    def more(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise EOFError("the broker has closed the connection")
        self.buffer += piece

    def complete(self):
        """The length of the header and of the whole packet, if it is there."""
        length = 0
        for i in range(1, min(len(self.buffer), 5)):
            length |= (self.buffer[i] & 127) << 7 * (i - 1)
            if not self.buffer[i] & 128:
                return (1 + i, 1 + i + length) if len(self.buffer) >= 1 + i + length else None
        return None

    def packet(self):
        while not (found := self.complete()):
            self.more()
        header, end = found
        kind, body = self.buffer[0], bytes(self.buffer[header:end])
        del self.buffer[:end]
        return kind, body


def text(word):
    return len(word).to_bytes(2, "big") + word


def message(number):
    length = number * 7919 % SPAN
    return b"%d " % number + hashlib.sha256(b"%d" % number).digest() * (length // 32)


def publish(port, file, first, count):
    first, count = int(first), int(count)
    # The name differs, so that one that is killed and started again is somebody else.
    client = Connection(port, b"publisher-%d" % os.getpid(), True)
    waiting = {}
    begun = time.monotonic()
    with open(file, "ab", buffering=0) as acknowledged:
        following = first
        while following < first + count or waiting:
            if following < first + count and len(waiting) < IN_FLIGHT:
                identity = following % 60_000 + 1
                waiting[identity] = following
                client.send(PUBLISH << 4 | 2, text(b"numbers") + identity.to_bytes(2, "big") + message(following))
                following += 1
                if not client.complete() and not select.select([client.socket], [], [], 0)[0]:
                    continue
            kind, body = client.packet()
            if kind >> 4 != PUBACK:
                raise ValueError(f"a packet of kind {kind}")
            acknowledged.write(b"%d\n" % waiting.pop(int.from_bytes(body, "big")))
    print("in a second:", count / (time.monotonic() - begun))


def subscribe(port, file):
    with open(file, "ab", buffering=0) as arrived:
        while True:
            try:
                client = Connection(port, b"subscriber", False)
                client.send(SUBSCRIBE << 4 | 2, b"\0\1" + text(b"numbers") + b"\1")
                while True:
                    receive(client, arrived)
            except (EOFError, ConnectionError):
                time.sleep(0.05)


def receive(client, arrived):
    kind, body = client.packet()
    if kind >> 4 == SUBACK:
        arrived.write(b"subscribed\n")
    if kind >> 4 != PUBLISH:
        return
    topic = int.from_bytes(body[:2], "big")
    identity, content = body[2 + topic : 4 + topic], body[4 + topic :]
    number = int(content.split(b" ", 1)[0])
    if content != message(number):
        raise ValueError(f"message {number} is not what was published")
    arrived.write(b"%d\n" % number)
    client.send(PUBACK << 4, identity)


{"publish": publish, "subscribe": subscribe}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
