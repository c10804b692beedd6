"""Two programs that talk over TCP until the file STOP is there: talk.py server|client PORT STOP

The client prints how many answers were what it had sent; anything else is an error."""

import os
import socket
import sys
import threading
import time

PORT, STOP = int(sys.argv[2]), sys.argv[3]


def whole(connection, length):
    """That many bytes, or fewer where the other end has closed."""
    got = b""
    while len(got) < length:
        piece = connection.recv(length - len(got))
        if not piece:
            break
        got += piece
    return got


def echo(connection):
    """Sends back what comes."""
    with connection:
        while piece := connection.recv(65536):
            connection.sendall(piece)


def server():
    """Serves until there is STOP, and nobody is connected."""
    threads = []
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        listener.settimeout(0.1)
        while not os.path.exists(STOP) or any(thread.is_alive() for thread in threads):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(None)
            threads.append(threading.Thread(target=echo, args=(connection,)))
            threads[-1].start()


def client():
    """Asks some hundred times in a second."""
    exchanges = 0
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        while not os.path.exists(STOP):
            question = f"{exchanges:8}".encode() * 125
            connection.sendall(question)
            answer = whole(connection, len(question))
            assert answer == question, f"exchange {exchanges}: {len(answer)} bytes, not those that were sent"
            exchanges += 1
            time.sleep(0.002)
    print(exchanges)


{"server": server, "client": client}[sys.argv[1]]()
