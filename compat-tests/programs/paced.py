"""One side sends at a pace what the other can compute: paced.py server PORTFILE, or
paced.py client PORTFILE MESSAGES SIZE PAUSE_MS [hold]. The server answers each of the first hundred messages. The first comes
three seconds after the connection."""

import socket
import sys
import time

from portfile import publish, run, there

# What is sent comes again after so many bytes.
PERIOD = 251 * 256
STREAM = bytes((i * 31 + i // 251) & 255 for i in range(PERIOD))


def receive(connection, size):
    """As many bytes, unless the stream ends before."""
    got = bytearray()
    while len(got) < size:
        piece = connection.recv(size - len(got))
        if not piece:
            break
        got += piece
    return bytes(got)


def server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        publish(listener.getsockname()[1])
        connection, _ = listener.accept()
    with connection:
        size = int.from_bytes(receive(connection, 4), "big")
        number = 0
        while len(receive(connection, size)) == size:
            if number < 100:
                connection.sendall(b"%03d" % number)
            number += 1


def client():
    messages, size, pause = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    with socket.create_connection(there()) as connection:
        connection.sendall(size.to_bytes(4, "big"))
        # Long enough for somebody who looks on to know of us.
        time.sleep(3)
        stream = STREAM * (size // PERIOD + 2)
        for number in range(messages):
            at = number * size % PERIOD
            connection.sendall(memoryview(stream)[at:at + size])
            if number < 100:
                assert receive(connection, 3) == b"%03d" % number
            if pause:
                time.sleep(pause / 1000)
        if "hold" in sys.argv:
            print("holding", flush=True)
            try:
                connection.recv(1)
            except ConnectionResetError:
                print("reset", flush=True)


run(server, client)
