"""A server and ten clients as tasks of asyncio, on one thread: an endpoint is a descriptor, which loop.add_reader takes.

    LD_LIBRARY_PATH=target/release python3 examples/asyncio_echo.py
"""

import asyncio
import ctypes
import os

SERVER, CLIENTS, ROUNDS = 3501, 10, 100

libdp = ctypes.CDLL("libdp.so.1", use_errno=True)
libdp.dp_errno_text.restype = ctypes.c_char_p


def checked(result):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, libdp.dp_errno_text().decode())  # of EAGAIN, this is a BlockingIOError
    return result


async def until(add, remove, fd):
    """Waits for what `add` tells of: that something came, or that there is room."""
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)


async def read(fd):
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(fd, 4096)  # one read is one message
        except BlockingIOError:
            await until(loop.add_reader, loop.remove_reader, fd)


async def write(fd, message):
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.write(fd, message)  # and so is one write
        except BlockingIOError:
            await until(loop.add_writer, loop.remove_writer, fd)


def endpoint(own):
    fd = checked(libdp.dp_open(own))
    os.set_blocking(fd, False)
    return fd


async def serve(fd):
    loop = asyncio.get_running_loop()
    place, nid, dpid = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    answered = 0
    while answered < CLIENTS * ROUNDS:
        try:
            length = checked(libdp.dp_read(fd, ctypes.byref(place)))  # in place: whose it is, dp_peer tells
        except BlockingIOError:
            await until(loop.add_reader, loop.remove_reader, fd)
            continue
        checked(libdp.dp_peer(fd, ctypes.byref(nid), ctypes.byref(dpid)))
        checked(libdp.dp_sendto(fd, place, ctypes.c_size_t(length), nid, dpid))
        checked(libdp.dp_fsync(fd, 1))
        answered += 1
    return answered


async def ask(number):
    fd = endpoint(0)  # any free number
    checked(libdp.dp_target(fd, 0, SERVER))
    for i in range(ROUNDS):
        message = b"client %d, message %d" % (number, i)
        await write(fd, message)
        assert await read(fd) == message
    os.close(fd)


async def main():
    fd = endpoint(SERVER)
    server = asyncio.create_task(serve(fd))
    await asyncio.gather(*(ask(number) for number in range(CLIENTS)))
    print(f"{await server} answers to {CLIENTS} clients")
    os.close(fd)


if __name__ == "__main__":
    asyncio.run(main())
