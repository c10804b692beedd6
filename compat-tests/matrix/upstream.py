"""An HTTP server behind others: PUT answers with length and SHA-256, GET sends a file of the working folder.

?slow makes it read or write in small pieces with pauses, so that whoever sends must wait.
"""

import hashlib
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 64 * 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pause(self):
        if "?slow" in self.path:
            time.sleep(0.001)

    def pieces(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(PIECE, left))
            if not piece:
                raise ConnectionError("the sender ended early")
            left -= len(piece)
            yield piece

    def do_PUT(self):
        digest, length = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            length += len(piece)
            self.pause()
        self.answer(f"{length} {digest.hexdigest()}\n".encode())

    do_POST = do_PUT

    def do_GET(self):
        name = os.path.basename(self.path.partition("?")[0])
        with open(name, "rb") as file:
            self.answer(file.read())

    def answer(self, content):
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for start in range(0, len(content), PIECE):
            self.wfile.write(content[start : start + PIECE])
            self.pause()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
