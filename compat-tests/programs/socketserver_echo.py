"""socketserver: a thread or a process for every connection (MODE: threading, forking); file-like reading."""

import socket
import socketserver
import threading

import portfile

CLIENTS = 6


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
            if line == b"quit\n":
                break


def server():
    kind = socketserver.ForkingTCPServer if portfile.MODE == "forking" else socketserver.ThreadingTCPServer
    with kind((portfile.ADDRESS, 0), Handler) as listening:
        listening.timeout = 10
        portfile.publish(listening.server_address[1])
        for _ in range(CLIENTS):
            listening.handle_request()
    print("handled", CLIENTS, "connections")


def one_client(number, results):
    with socket.create_connection(portfile.there()) as connection, connection.makefile("rwb") as stream:
        for i in range(150):
            stream.write(b"line %d of client %d%s\n" % (i, number, b"." * (i * 7 % 500)))
            stream.flush()
            results[number] += len(stream.readline())
        stream.write(b"quit\n")
        stream.flush()
        assert stream.read() == b"QUIT\n"


def client():
    results = [0] * CLIENTS
    threads = [threading.Thread(target=one_client, args=(i, results)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*results)


portfile.run(server, client)
