#!/usr/bin/env python3
"""The first design of TCP connections between nodes, and why it was given up (docs/TCP-BETWEEN-NODES.md): every interleaving of
one direction, both of which are in rings to begin with. Usage: python3 nodes_former_model.py (seconds; status 0: as expected).

There, gateway A has the client's socket, and rings by it: one byte on TCP for a receiver that sleeps (ARMED, told by B). A
ring is left by END with Q, the number of bells on TCP behind which data is data, which goes through the gateways. When a
gateway is gone, the receiver freezes its cursor and says by TCP, against the stream, where it is; the sender puts a record on TCP,
and all bytes from there on.

On TCP: 'b', a bell; ('d', byte); 'r', a record. Against the stream: ('c', byte), the cursor.
"""
import sys
from collections import namedtuple

from explorer import Wrong, explore

State = namedtuple('State', (
    # TCP with the stream, and the receiver's kernel; TCP against it
    'wire queue against '
    # sender: next byte, whether it is in the ring, whether it answered a cursor; what A's lines still have begins at `kept`
    'sent in_ring answered kept ended '
    # A: tokens taken (END is one), bells counted, one counted and not sent, the position at which it holds the receiver armed
    'a at_a bells owes armed '
    # B: tokens published
    'b shown '
    # receiver: next byte, Q if it has END, bells drained, ARMED on its way, asleep; frozen: a cursor was told; back: on TCP
    'pos q drained arming asleep frozen back result'))
START = State((), (), (), 0, True, False, 0, False, True, 0, 0, False, None, True, 0, 0, None, 0, None, False, False, False,
              None)
BYTES = 2

# kills: of 'A' and 'B'. hands_back: 'busy', with more to send; 'idle', at any time. The rest are cures and faults.
Rules = namedtuple('Rules', 'kills hands_back locked alone kept_by_b remembers')
GOOD = Rules('', '', False, False, False, True)


def data(begin, end):
    return tuple(('d', byte) for byte in range(begin, end))


def sender(r, s):
    if s.against:
        _, cursor = s.against[0]
        s = s._replace(against=s.against[1:])
        if r.alone:
            raise Wrong('a record is read as data: nobody is in a ring in that direction')
        if cursor < s.kept:
            raise Wrong(f'lost: byte {cursor} is wanted, and is in no ring any more')
        yield 'sender answers the cursor', s._replace(
            answered=True, in_ring=False, wire=s.wire + ('r',) + data(cursor, s.sent))
        return
    if s.sent < BYTES:
        yield 'sender sends', s._replace(sent=s.sent + 1, wire=s.wire if s.in_ring else s.wire + data(s.sent, s.sent + 1))
    when = r.hands_back == 'idle' or (r.hands_back == 'busy' and s.sent < BYTES)
    if when and s.in_ring and s.sent:
        # END lies behind the last byte in ring A, with the bells that were counted.
        yield 'sender hands back by END', s._replace(in_ring=False, ended=(s.sent, s.bells))


def end_of_ring(s):
    """Tokens in ring A, END among them."""
    if s.ended:
        return s.ended[0] + 1
    return s.sent if s.in_ring else 0


def gateways(r, s):
    if s.a:
        if s.at_a < end_of_ring(s):
            yield 'A takes a token', s._replace(at_a=s.at_a + 1)
        held = s.b and s.kept < min(s.at_a if r.kept_by_b else s.pos, s.sent)
        if held and s.in_ring:
            yield 'A gives lines back', s._replace(kept=s.kept + 1)
        if s.arming is not None and s.b:
            if s.sent > s.arming or r.remembers:
                yield 'A hears ARMED', s._replace(armed=s.arming, arming=None)
            else:
                yield 'A hears ARMED and forgets it', s._replace(arming=None)
        beyond = s.armed is not None and s.sent > s.armed and s.in_ring
        # While the bytes are slower than the bells, it rings again and again; twice is enough here.
        if beyond and not s.owes and (s.bells < 2 or s.shown > s.armed):
            if r.locked:
                yield 'A rings, under the lock', s._replace(bells=s.bells + 1, armed=None, wire=s.wire + ('b',))
            else:
                yield 'A counts a bell', s._replace(bells=s.bells + 1, armed=None, owes=True)
        if s.owes:
            yield 'A rings', s._replace(owes=False, wire=s.wire + ('b',))
        if 'A' in r.kills:
            yield 'A is killed', s._replace(a=False, owes=False)
    if s.b:
        if s.shown < s.at_a:
            end = s.ended and s.shown == s.ended[0]
            yield 'B publishes', s._replace(shown=s.shown + 1, q=s.ended[1] if end else s.q)
        if 'B' in r.kills:
            yield 'B is killed', s._replace(b=False)


def receive(s):
    """What a look does; None: nothing."""
    first = s.queue[0] if s.queue else None
    rest = s._replace(queue=s.queue[1:])
    if s.back:
        if first == 'b':
            raise Wrong('a bell is read as data')
        if first and first != 'r':
            return rest._replace(pos=first[1] + 1) if first[1] == s.pos else s._replace(result=f'lost: byte {s.pos}')
        return None
    bytes_shown = min(s.shown, s.ended[0]) if s.ended else s.shown
    if not s.frozen and s.pos < bytes_shown:
        return s._replace(pos=s.pos + 1)
    if not s.frozen and s.q is not None and s.pos == s.ended[0]:
        if s.drained == s.q:
            return s._replace(back=True)
        if first and first != 'b':
            raise Wrong('data is taken for a bell')
        return rest._replace(drained=s.drained + 1) if first else None
    if not s.frozen and s.q is None and not (s.a and s.b):
        return s._replace(frozen=True, against=s.against + (('c', s.pos),))
    if first == 'b':
        return rest._replace(drained=s.drained + 1)
    if first == 'r':
        return rest._replace(back=True)
    if first and first[0] == 'd':
        # It knows of no Q. Nothing says that these are no bells, and data can look like a record.
        return rest._replace(result='lost: data is taken for bells') if s.frozen else None
    return None


def receiver(s):
    if s.result:
        return
    t = receive(s)
    if s.asleep:
        # The kernel wakes it, or whoever notices that a gateway is gone.
        if s.queue or not (s.a and s.b):
            yield 'receiver wakes', s._replace(asleep=False)
    elif t:
        yield 'receiver takes something', t
    elif s.arming is None and s.armed is None and s.q is None and not s.frozen and not s.back and s.pos < BYTES:
        yield 'receiver says ARMED and sleeps', s._replace(arming=s.pos, asleep=True)


def check(name, expected, **changes):
    r = GOOD._replace(**changes)

    def steps(s):
        tcp = [(f'TCP brings {s.wire[0]}', s._replace(wire=s.wire[1:], queue=s.queue + s.wire[:1]))] if s.wire else []
        return [*sender(r, s), *gateways(r, s), *tcp, *receiver(s)]

    def final(s):
        return s.result or (f'hangs: {s.pos} of {BYTES} bytes' if s.pos < BYTES else None)

    return explore(name, START, steps, final, expected)


def main():
    results = [
        check('nobody is killed, nobody hands back', 'holds'),
        check('as it was written: a stream that is handed back with nothing more to send', 'hangs', hands_back='idle'),
        check('as it was written: handed back with more to send', 'data is', hands_back='busy'),
        check('the same, and A rings under the sender\'s lock, which a stopped gateway holds', 'holds', hands_back='busy',
              locked=True),
        check('the same, and a gateway is killed while END is on its way', 'lost', hands_back='busy', locked=True,
              kills='AB'),
        check('a gateway is killed, nobody hands back by END', 'holds', locked=True, kills='AB'),
        check('broken: one direction alone is in a ring', 'a record', locked=True, kills='AB', alone=True),
        check('broken: lines are given back when B has the bytes', 'lost', locked=True, kills='AB', kept_by_b=True),
        check('broken: ARMED is not remembered, so the bell is not armed again', 'hangs', locked=True, remembers=False),
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
