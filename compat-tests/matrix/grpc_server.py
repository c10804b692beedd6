"""A gRPC server of plain bytes: echo of one message, and of a stream, at once or slowly. Argument: the port."""

import sys
import time
from concurrent import futures

import grpc


def echo(request, _):
    return request


def stream(requests, _):
    for request in requests:
        yield request


def slowly(requests, _):
    for request in requests:
        time.sleep(0.005)
        yield request


handlers = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Stream": grpc.stream_stream_rpc_method_handler(stream),
    "Slowly": grpc.stream_stream_rpc_method_handler(slowly),
}
server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", -1)])
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Bytes", handlers)])
if server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}") == 0:
    sys.exit("the port is taken")
server.start()
server.wait_for_termination()
