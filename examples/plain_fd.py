"""Talks over an endpoint that was opened by another program and inherited as descriptor 3.

An endpoint is a file descriptor: os.read, os.write and selectors are all there is to it.

    cc give_endpoint.c -ldp && ./a.out python3 plain_fd.py
"""

import os
import selectors

ENDPOINT = 3


def main():
    os.set_blocking(ENDPOINT, False)
    selector = selectors.DefaultSelector()
    selector.register(ENDPOINT, selectors.EVENT_READ)
    for word in ("one", "two", "three"):
        os.write(ENDPOINT, word.encode())  # one write is one message
        selector.select()
        print(os.read(ENDPOINT, 4096).decode())  # and so is one read


if __name__ == "__main__":
    try:
        main()
    finally:
        os.write(ENDPOINT, b"")  # an empty message is a message: it says that we are done
