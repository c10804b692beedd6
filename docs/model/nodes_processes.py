#!/usr/bin/env python3
"""The protocol of docs/TCP-BETWEEN-NODES.md with processes, TCP of the running kernel, and kill -9: what nodes_bytes_model.py proves
of an idea of TCP, tried on the real one. Usage: python3 nodes_processes.py [ROUNDS [SEED]] (half a minute; status 0: no byte was lost,
repeated or made up).

In each round a sender, two gateways and a receiver are forked. The sender goes over and back at random; its records are cut at
random. After a random time some of them are killed, in a random order. The receiver knows what must come. Sleeping is left out:
everybody looks, and rests between looks.
"""
import fcntl
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import termios
import time

SLOTS, LONGEST = 8, 96
SLOT = 5 + LONGEST // 8                  # words: epoch, P, first byte of a record, length, number in the ring plus one; bytes
RECORD = 9
(PUT, ACKED, SHOWN, TAKEN, DRAINED, ENDS_AT, GATEWAY_GONE, SENDER_GONE, ACCEPTED, IN_RING, DONE) = range(11)
COUNTERS = 16
LINGER = {on: struct.pack('ii', on, 0) for on in (0, 1)}
REST = 0.0002


class Shared:
    """What the processes of a round share: counters, ring A, ring B. Each word has one writer."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 8 * (COUNTERS + 2 * SLOTS * SLOT))
        self.words = memoryview(self.memory).cast('Q')

    def __getitem__(self, counter):
        return self.words[counter]

    def __setitem__(self, counter, value):
        self.words[counter] = value

    def write(self, ring, number, token):
        epoch, begin, first, data = token
        at = COUNTERS + (ring * SLOTS + number % SLOTS) * SLOT
        self.memory[8 * (at + 5):8 * (at + 5) + len(data)] = data
        for k, word in enumerate((epoch, begin, first, len(data))):
            self.words[at + k] = word

    def read(self, ring, number):
        at = COUNTERS + (ring * SLOTS + number % SLOTS) * SLOT
        epoch, begin, first, length = self.words[at:at + 4]
        return epoch, begin, first, bytes(self.memory[8 * (at + 5):8 * (at + 5) + length])


def byte_at(position):
    return (position * 167 + (position >> 8) * 31 + (position >> 16)) & 255


def content(begin, end):
    return bytes(byte_at(position) for position in range(begin, end))


def unsent(tcp):
    return struct.unpack('i', fcntl.ioctl(tcp, termios.TIOCOUTQ, b'\0' * 4))[0]


class Sender:
    def __init__(self, shared, tcp, chance, total):
        self.shared, self.tcp, self.chance, self.total = shared, tcp, chance, total
        self.on_tcp = self.sent = self.epoch = self.epoch_from = self.began = 0
        self.ring = None

    def put_on_tcp(self, data):
        while data:
            piece = data[:self.chance.randint(1, 4000)]
            self.tcp.sendall(piece)
            self.on_tcp += len(piece)
            data = data[len(piece):]

    def run(self):
        s, chance = self.shared, self.chance
        while self.sent < self.total:
            data = content(self.sent, min(self.total, self.sent + chance.randint(1, LONGEST)))
            if self.ring is None:
                if not s[GATEWAY_GONE] and chance.random() < 0.2 and unsent(self.tcp) == 0 and self.has_room():
                    self.go_over(data)
                else:
                    self.put_on_tcp(data)
            elif s[GATEWAY_GONE] or chance.random() < 0.03:
                self.hand_back()
                continue
            elif self.has_room():
                self.put_in_ring(data)
            else:
                time.sleep(REST)
                continue
            self.sent += len(data)
            s[ACCEPTED] = self.sent
        s[DONE] = 1
        # Makes no call for a while: the keeper's part is done here.
        until = time.monotonic() + chance.random() * 0.02
        while self.ring is not None and not s[GATEWAY_GONE] and time.monotonic() < until:
            time.sleep(REST)
        if self.ring is not None:
            self.hand_back()
        self.tcp.close()

    def has_room(self):
        return self.shared[PUT] - self.shared[ACKED] < SLOTS

    def go_over(self, data):
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER[1])
        self.shared[IN_RING] = 1
        self.epoch += 1
        self.began = self.shared[PUT]
        first = (data[0] + self.chance.randint(1, 255)) & 255
        self.ring, self.epoch_from = (self.epoch, self.on_tcp, first), self.sent
        self.put_in_ring(data)

    def put_in_ring(self, data):
        s = self.shared
        s.write(0, s[PUT], self.ring + (data,))
        s[PUT] += 1

    def hand_back(self):
        s = self.shared
        s[IN_RING] = 0
        acked = max(s[ACKED], self.began)
        kept = b''.join(s.read(0, number)[3] for number in range(acked, s[PUT]))
        had = self.sent - self.epoch_from - len(kept)
        record = bytes([self.ring[2]]) + struct.pack('>Q', had) if had else b''
        self.put_on_tcp(record + kept)
        self.ring = None
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER[0])


def send(flow, packet):
    try:
        return flow.send(packet) > 0
    except OSError:
        return False                      # No room, or nobody there.


def gateway_a(s, flow):
    at, said_end = 0, False
    flow.setblocking(False)
    while True:
        if at < s[PUT]:
            epoch, begin, first, data = s.read(0, at)
            at += send(flow, struct.pack('QQQ', epoch, begin, first) + data)
        elif s[SENDER_GONE] and not said_end:
            # Behind all of its tokens.
            said_end = send(flow, b'end')
        try:
            s[ACKED] = struct.unpack('Q', flow.recv(8))[0]
        except (OSError, struct.error):
            time.sleep(REST)


def gateway_b(s, flow):
    while True:
        try:
            packet = flow.recv(4096)
        except ConnectionResetError:
            continue                      # A is gone; what it sent is still to come.
        if not packet:
            s[DRAINED] = 1
            return
        if packet == b'end':
            s[ENDS_AT] = s[SHOWN] + 1
            continue
        while s[SHOWN] - s[TAKEN] >= SLOTS:
            time.sleep(REST)
        s.write(1, s[SHOWN], struct.unpack('QQQ', packet[:24]) + (packet[24:],))
        s[SHOWN] += 1
        send(flow, struct.pack('Q', s[SHOWN]))


class Receiver:
    def __init__(self, shared, tcp):
        self.shared, self.tcp = shared, tcp
        self.position = self.on_tcp = self.twice = self.closed = self.had = 0
        self.ring, self.was_reset = None, False

    def deliver(self, data):
        if data != content(self.position, self.position + len(data)):
            raise SystemExit(f'other bytes than were sent, at {self.position}')
        self.position += len(data)

    def run(self):
        while True:
            counted, end = self.count()
            result = self.step(counted, end)
            if result:
                return result
            if result is None:
                time.sleep(REST)

    def count(self):
        """What is on TCP, and if it is nothing, whether that is the end."""
        counted = struct.unpack('i', fcntl.ioctl(self.tcp, termios.FIONREAD, b'\0' * 4))[0]
        if counted:
            return counted, None
        if self.was_reset:
            return 0, 'reset'
        try:
            return 0, None if self.tcp.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) else 'end'
        except BlockingIOError:
            return 0, None
        except ConnectionResetError:
            self.was_reset = True        # The kernel says it once (W13).
            return 0, 'reset'

    def take(self, n):
        data = self.tcp.recv(n, socket.MSG_DONTWAIT)
        self.on_tcp += len(data)
        return data

    def step(self, counted, end):
        """None: nothing to do. False: something was done."""
        s = self.shared
        head = s.read(1, s[TAKEN]) if s[TAKEN] < s[SHOWN] else None
        if self.ring:
            return self.step_in_ring(counted, end, head)
        if head:
            epoch, begin, first, _ = head
            if epoch <= self.closed or begin < self.on_tcp:
                s[TAKEN] += 1
                return False
            if begin == self.on_tcp:
                self.ring, self.had = (epoch, begin, first), 0
                return False
            counted = min(counted, begin - self.on_tcp)
        if end == 'end':
            return 'end'
        if end == 'reset':
            # As in a ring, if the tokens that say so are still to come.
            return 'reset' if head else self.killed()
        if not counted:
            return None
        if self.twice:
            self.twice -= len(self.take(min(counted, self.twice)))
        else:
            self.deliver(self.take(counted))
        return False

    def step_in_ring(self, counted, end, head):
        s = self.shared
        if head and head[0] == self.ring[0]:
            self.deliver(head[3])
            self.had += len(head[3])
            s[TAKEN] += 1
            return False
        if end == 'end':
            return 'end in a ring'
        if end == 'reset':
            return self.killed()
        if not counted:
            return None
        seen = self.tcp.recv(RECORD, socket.MSG_PEEK | socket.MSG_DONTWAIT)[:counted]
        had = 0
        if seen[0] == self.ring[2]:
            if len(seen) < RECORD:
                return None
            had = struct.unpack('>Q', self.take(RECORD)[1:])[0]
            if had > self.had:
                return f'lost: {had} bytes were acknowledged, {self.had} came'
        self.twice = self.had - had
        self.ring, self.closed = None, self.ring[0]
        return False

    def killed(self):
        s = self.shared
        if s[ENDS_AT] and s[TAKEN] == s[SHOWN]:
            return 'end' if self.position >= s[ACCEPTED] else 'reset'
        return 'reset' if s[GATEWAY_GONE] and (s[DRAINED] or s[GATEWAY_GONE] & 2) else None


def forked(work):
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.alarm(20)
    try:
        work()
    except SystemExit as what:
        print(what, flush=True)
        os._exit(1)
    except BaseException as error:       # noqa: what went wrong is said, and is a failure
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def a_round(seed):
    """What went wrong in it, or nothing."""
    chance, s = random.Random(seed), Shared()
    with socket.create_server(('127.0.0.1', 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told, tell = os.pipe()
    total = chance.choice((1, 50, 2000, 60000))

    def close(*descriptors):
        for descriptor in descriptors:
            descriptor.close()

    def receive():
        close(client, *ends)
        receiver = Receiver(s, server)
        os.write(tell, f'{receiver.run()} {receiver.position}'.encode())

    def gateway(at):
        close(client, server, ends[1 - at])
        (gateway_a, gateway_b)[at](s, ends[at])

    def send_all():
        close(server, *ends)
        Sender(s, client, random.Random(seed + 1), total).run()

    pids = {'A': forked(lambda: gateway(0)), 'B': forked(lambda: gateway(1)), 'R': forked(receive), 'X': forked(send_all)}
    close(client, server, *ends)
    os.close(tell)
    victims = chance.choice(('', 'A', 'B', 'AB', 'BA', 'X', 'XA', 'AX', 'BX', 'XB', 'ABX'))
    abrupt = reap(s, pids, victims, chance)
    ready, _, _ = select.select([told], [], [], 15)
    result, _, position = os.read(told, 200).decode().rpartition(' ') if ready else ('hangs', '', '0')
    os.close(told)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return judge(s, victims, abrupt, total, result, int(position or 0)), victims, total


def reap(s, pids, victims, chance):
    """Kills them, and has the others hear of it. Whether the sender was in a ring when it was killed."""
    abrupt = False
    for victim in victims:
        time.sleep(chance.random() * chance.choice((0.002, 0.02, 0.1)))
        os.kill(pids[victim], signal.SIGKILL)
        os.waitid(os.P_PID, pids[victim], os.WEXITED | os.WNOWAIT)
        time.sleep(chance.random() * 0.002)
        if victim == 'X':
            abrupt = s[IN_RING] == 1
            s[SENDER_GONE] = 1
        else:
            s[GATEWAY_GONE] = s[GATEWAY_GONE] | (2 if victim == 'B' else 1)
    return abrupt


def judge(s, victims, abrupt, total, result, position):
    if 'X' not in victims or s[DONE] and not abrupt:
        fine = result == 'end' and position == total or ('X' in victims and result == 'reset')
        return None if fine else f'{result} after {position} of {total} bytes'
    if result == 'end':
        return None if position >= s[ACCEPTED] else f'cut off after {position} of {s[ACCEPTED]} bytes'
    if result != 'reset' or (abrupt and victims == 'X'):
        return f'{result or "nothing"} after {position} of {s[ACCEPTED]} bytes'
    return None


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    failed = 0
    for n in range(rounds):
        what, victims, total = a_round(seed + n)
        if what:
            failed += 1
            print(f'*** seed {seed + n}, killed: {victims or "nobody"}, {total} bytes: {what}', flush=True)
    print(f"{'*** UNEXPECTED ***' if failed else 'as expected'} | {rounds} rounds from seed {seed}, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
