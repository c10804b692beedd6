"""http.server and urllib: a generated file of 50 MB fetched whole, a part of it, an upload, a missing page."""

import hashlib
import http.server
import os
import random
import shutil
import tempfile
import threading
import urllib.error
import urllib.request

import portfile

SIZE = 50_000_000


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        answer = hashlib.sha256(data).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        if self.path == "/end":
            threading.Thread(target=self.server.shutdown).start()


def generated(path):
    block = random.Random(7).randbytes(1 << 16)
    with open(path, "wb") as file:
        for start in range(0, SIZE, len(block)):
            file.write((start.to_bytes(8, "big") + block[8:])[: SIZE - start])


def server():
    folder = tempfile.mkdtemp(dir=os.path.dirname(portfile.sys.argv[2]))
    generated(os.path.join(folder, "file"))
    os.chdir(folder)
    with http.server.ThreadingHTTPServer((portfile.ADDRESS, 0), Handler) as listening:
        listening.daemon_threads = True
        portfile.publish(listening.server_address[1])
        listening.serve_forever(poll_interval=0.05)
    shutil.rmtree(folder)
    print("served")


def client():
    base = "http://%s:%d" % portfile.there()
    digest = hashlib.sha256()
    with urllib.request.urlopen(base + "/file") as answer:
        while data := answer.read(1 << 18):
            digest.update(data)
        print(answer.status, answer.headers["Content-Length"], digest.hexdigest())
    try:
        urllib.request.urlopen(base + "/missing")
    except urllib.error.HTTPError as error:
        print("missing:", error.code)
    for length in (0, 1, 100_000, 5_000_000):
        data = portfile.message(length, 4096) * (length // 4096) + b"x" * (length % 4096)
        with urllib.request.urlopen(base + "/upload", data=data) as answer:
            print("upload of", length, answer.read().decode() == hashlib.sha256(data).hexdigest())
    with urllib.request.urlopen(base + "/end", data=b"end") as answer:
        print("end:", answer.status)


portfile.run(server, client)
