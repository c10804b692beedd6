"""selectors: an echo server over the platform's best selector, or the one that MODE names; five clients."""

import selectors
import socket

import portfile

CLIENTS = 5
ROUNDS = 100


def server():
    kinds = {"select": selectors.SelectSelector, "poll": selectors.PollSelector}
    watched = kinds.get(portfile.MODE, selectors.DefaultSelector)()
    listener = socket.create_server((portfile.ADDRESS, 0))
    listener.setblocking(False)
    watched.register(listener, selectors.EVENT_READ)
    portfile.publish(listener.getsockname()[1])
    pending = {}
    total = ended = 0
    while ended < CLIENTS:
        for key, events in watched.select(timeout=10):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                pending[connection] = bytearray()
                watched.register(connection, selectors.EVENT_READ)
                continue
            connection, waiting = key.fileobj, pending[key.fileobj]
            if events & selectors.EVENT_READ:
                data = connection.recv(65536)
                if not data:
                    watched.unregister(connection)
                    connection.close()
                    ended += 1
                    continue
                total += len(data)
                waiting += data
            if events & selectors.EVENT_WRITE:
                del waiting[: connection.send(waiting)]
            interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
            watched.modify(connection, interest)
    print("echoed", total, "bytes")


def client():
    connections = [socket.create_connection(portfile.there()) for _ in range(CLIENTS)]
    for number in range(ROUNDS):
        sent = [portfile.message(number + i, 1 + number * 97 % 5000) for i in range(CLIENTS)]
        for connection, data in zip(connections, sent):
            connection.sendall(data)
        for connection, data in reversed(list(zip(connections, sent))):
            assert connection.recv(len(data), socket.MSG_WAITALL) == data
    for connection in connections:
        connection.close()
    print(ROUNDS, "rounds")


portfile.run(server, client)
