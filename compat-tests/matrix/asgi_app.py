"""PUT answers with length and SHA-256, POST sends back what comes, as it comes, GET sends a file of the working folder.

?slow reads and writes with pauses; /1k sends 1 KiB.
"""

import asyncio
import hashlib
import os

PIECE = 64 * 1024


async def body(receive, slow):
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionError("the sender ended early")
        yield event.get("body", b"")
        more = event.get("more_body", False)
        if slow:
            await asyncio.sleep(0.0005)


async def file(name):
    with open(name, "rb") as source:
        while piece := source.read(PIECE):
            yield piece


async def one(content):
    yield content


async def app(scope, receive, send):
    assert scope["type"] == "http"
    slow = scope["query_string"] == b"slow"
    name = os.path.basename(scope["path"])
    if scope["method"] == "PUT":
        digest, length = hashlib.sha256(), 0
        async for piece in body(receive, slow):
            digest.update(piece)
            length += len(piece)
        pieces = one(f"{length} {digest.hexdigest()}\n".encode())
    elif scope["method"] == "POST":
        pieces = body(receive, slow)
    elif name == "1k":
        pieces = one(b"x" * 1024)
    else:
        pieces = file(name)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})
