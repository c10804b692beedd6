"""Ping-pong between two processes over endpoints opened from Python: ctypes on libdp.so for what a descriptor has no
call for, os.write, select and os.read for the rest.

    LD_LIBRARY_PATH=target/release python3 examples/ctypes_pingpong.py
"""

import ctypes
import os
import select

PING, PONG, ROUNDS = 3401, 3402, 100

libdp = ctypes.CDLL("libdp.so.1", use_errno=True)
libdp.dp_errno_text.restype = ctypes.c_char_p


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), libdp.dp_errno_text().decode())
    return result


def endpoint(own, target):
    fd = checked(libdp.dp_open(own))
    checked(libdp.dp_target(fd, 0, target))  # which may be opened later
    return fd


def ping():
    fd = endpoint(PING, PONG)
    for i in range(ROUNDS):
        os.write(fd, b"ping %d" % i)  # one write is one message
        select.select([fd], [], [])
        assert os.read(fd, 64) == b"pong %d" % i  # and so is one read
    print(f"{ROUNDS} round trips")
    os.close(fd)


def pong():
    fd = endpoint(PONG, PING)
    for _ in range(ROUNDS):
        os.write(fd, os.read(fd, 64).replace(b"ping", b"pong"))
    os.close(fd)


if __name__ == "__main__":
    child = os.fork()  # before the first dp_open: endpoints belong to the process that opened them
    if child == 0:
        pong()
    else:
        ping()
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
