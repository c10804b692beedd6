# Runs another program that may have no AF_UNIX sockets, or with `netlink` none of AF_NETLINK, as systemd's RestrictAddressFamilies=
# does: no_unix.py [netlink] PROGRAM ARGUMENT...
import ctypes
import errno
import os
import platform
import socket
import struct
import sys

netlink = sys.argv[1] == "netlink"
command = sys.argv[2:] if netlink else sys.argv[1:]
family = socket.AF_NETLINK if netlink else socket.AF_UNIX

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
SYS_socket = {"x86_64": 41, "aarch64": 198}[platform.machine()]

code = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in [
        (LOAD, 0, 0, 0),  # the number
        (EQUALS, 0, 3, SYS_socket),
        (LOAD, 0, 0, 16),  # the first argument
        (EQUALS, 0, 1, family),
        (RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]
)
program = ctypes.create_string_buffer(code)
pointer = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, pointer, 0, 0):
    sys.exit("no_unix: " + os.strerror(ctypes.get_errno()))
os.execv(command[0], command)
