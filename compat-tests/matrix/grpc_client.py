"""Clients of grpc_server.py: grpc_client.py PORT MODE [SECONDS]. Prints one line; a wrong byte or an error ends it badly.

content: messages of many sizes, streams of 1 MiB both ways, slow on either side. streaming: streams for ever, and prints
`begun` first. unary, small, large: calls for so many seconds, prints how many in a second.
"""

import hashlib
import sys
import time

import grpc

MIB = 1 << 20
COUNT = 50


def message(number, length):
    return hashlib.shake_128(str(number).encode()).digest(length)


def check(number, length, arrived):
    if message(number, length) != arrived:
        sys.exit(f"message {number} of {length} bytes is wrong: {len(arrived)} bytes arrived")


def content(call):
    sizes = [0, 1, 100, 4096, 16383, 16384, 65536, 1000003, 3 * MIB]
    for number, size in enumerate(sizes * 3):
        check(number, size, call("Echo")(message(number, size)))
    # Several calls at the same time share the connection.
    pending = [(number, call("Echo").future(message(number, 10000))) for number in range(200)]
    for number, future in pending:
        check(number, 10000, future.result())
    for method, pause in [("Stream", 0), ("Slowly", 0), ("Stream", 0.005)]:
        arrived = 0
        for answer in call(method)(message(number, MIB) for number in range(COUNT)):
            check(arrived, MIB, answer)
            arrived += 1
            time.sleep(pause)
        if arrived != COUNT:
            sys.exit(f"{arrived} of {COUNT} messages of a stream arrived")
    print("right")


def streaming(call):
    def forever():
        while True:
            yield bytes(MIB)

    for number, answer in enumerate(call("Slowly")(forever())):
        if number == 3:
            print("begun", flush=True)


def rate(seconds, step):
    end, begin, count = time.monotonic() + seconds, time.monotonic(), 0
    while (now := time.monotonic()) < end:
        step()
        count += 1
    print(f"{count / (now - begin):.1f} a second, {count} in all")


def figure(call, mode, seconds):
    if mode == "streamed":
        number, sent = 0, bytes(MIB)
        end, begin = time.monotonic() + seconds, time.monotonic()

        def until():
            while time.monotonic() < end:
                yield sent

        for answer in call("Stream")(until()):
            number += len(answer) == MIB
        print(f"{number / (time.monotonic() - begin):.1f} a second, {number} in all")
        return
    sent, echo = bytes({"small": 100, "large": MIB}[mode]), call("Echo")

    def step():
        if echo(sent) != sent:
            sys.exit("another answer came")

    rate(seconds, step)


def main():
    port, mode = sys.argv[1:3]
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=limits) as channel:
        grpc.channel_ready_future(channel).result(timeout=30)

        def call(method):
            kind = channel.unary_unary if method == "Echo" else channel.stream_stream
            return kind(f"/Bytes/{method}")

        if mode == "content":
            content(call)
        elif mode == "streaming":
            streaming(call)
        else:
            figure(call, mode, float(sys.argv[3]))


try:
    main()
except grpc.RpcError as error:
    sys.exit(f"gRPC: {error.code().name}")
