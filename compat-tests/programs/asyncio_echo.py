"""asyncio (epoll inside): a streams echo server, ten clients at once, with flow control on a large message."""

import asyncio
import hashlib

import portfile

CLIENTS = 10
LARGE = 3 << 20


async def serve():
    total = 0
    ended = asyncio.Queue()

    async def echo(reader, writer):
        nonlocal total
        while data := await reader.read(65536):
            total += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        ended.put_nowait(1)

    listening = await asyncio.start_server(echo, portfile.ADDRESS, 0)
    portfile.publish(listening.sockets[0].getsockname()[1])
    for _ in range(CLIENTS):
        await ended.get()
    listening.close()
    print("echoed", total, "bytes")


async def one_client(number):
    reader, writer = await asyncio.open_connection(*portfile.there())
    for i in range(100):
        line = b"%d %s\n" % (i, b"x" * (i * 11 % 900))
        writer.write(line)
        assert await reader.readline() == line
    large = portfile.message(number, 4096) * (LARGE // CLIENTS // 4096)
    writer.write(large)
    writer.write_eof()
    back = await reader.read()
    assert back == large
    writer.close()
    return hashlib.sha256(back).hexdigest()[:16]


async def clients():
    for number, digest in enumerate(await asyncio.gather(*map(one_client, range(CLIENTS)))):
        print("client", number, digest)


portfile.run(lambda: asyncio.run(serve()), lambda: asyncio.run(clients()))
