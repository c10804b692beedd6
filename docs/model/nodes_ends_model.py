#!/usr/bin/env python3
"""How a TCP connection between nodes ends whose bytes go by the gateways (docs/TCP-BETWEEN-NODES.md), every interleaving.
Usage: python3 nodes_ends_model.py (seconds; status 0: everything is as expected).

A client sends a request, says that it will send no more, and reads an answer up to its end; or it closes at once. A server
reads, to the end or only the request, answers and closes. Both directions are in rings to begin with. The two gateways are one
thing here, which can be killed at every step: what nobody published then is lost, or not. Sleeping is left out.

What this model is about is the kernel's rule that whatever but an end comes to a closed socket is answered by a reset, and that
the reset takes along what the closed side had sent and was still on its way. A record is such a thing, though no program
sent it.

On TCP are ('d', byte), ('m', byte): a record, 'F', 'R', and in one broken variant bells, 'b'. A ring has the bytes, and END.

Properties: the client gets the answer and the end, the server the request and, if it waits for it, the end.
"""
import sys
from collections import namedtuple

from explorer import Wrong, explore

# One direction. Sender: bytes sent, where ('ring', 'tcp'), its end ('no', 'wanted', 'sent'), whether END is in its ring;
# closed. Tokens that the gateways took, published, acknowledged. Receiver: next byte, bytes on TCP that it had, where, how it ended.
Direction = namedtuple('Direction', 'wire queue sent mode end says_end closed at shown acked pos twice cur got')
State = namedtuple('State', 'there back gateways client server')
START = Direction((), (), 0, 'ring', 'no', False, False, 0, 0, 0, 0, 0, 'ring', None)

# killed: a gateway may be. closes: the client closes. early: the server does not wait for the end. by_tcp: the answer goes
# by TCP from the beginning. The rest are faults.
Rules = namedtuple('Rules', 'killed closes early by_tcp record_at_once end_without_fin bells')
GOOD = Rules(True, False, False, False, False, False, False)


def other(which):
    return 'back' if which == 'there' else 'there'


def tokens(d):
    return d.sent + d.says_end


def hand_back(d, fin):
    """What nobody is known to have goes onto TCP again, behind a record if the receiver is known to know the ring."""
    first = min(d.acked, d.sent)
    units = tuple(('d', byte) for byte in range(first, d.sent))
    if d.acked:
        units = (('m', first),) + units
    return d._replace(mode='tcp', wire=d.wire + units + (('F',) if fin else ()), end='sent' if fin else d.end)


def carry(s, which):
    d = getattr(s, which)
    if d.shown < d.at:
        yield 'publishes', d._replace(shown=d.shown + 1)
        if not s.gateways:
            yield 'loses the rest', d._replace(at=d.shown)
    if s.gateways:
        if d.at < tokens(d):
            yield 'takes a token', d._replace(at=d.at + 1)
        if d.acked < d.shown:
            yield 'acknowledges', d._replace(acked=d.acked + 1)
        if d.closed and not d.says_end:
            yield 'says where it ends', d._replace(says_end=True)


def keep(s, which):
    """What is done for a sender that makes no call."""
    d = getattr(s, which)
    if d.mode == 'ring' and not d.closed and d.end != 'sent':
        if not s.gateways:
            yield 'hands back', hand_back(d, d.end == 'wanted')
        elif d.end == 'wanted' and d.acked == tokens(d):
            yield 'puts the held FIN on TCP', d._replace(wire=d.wire + ('F',), end='sent')


def bring(s, which):
    """TCP brings a thing, to a socket that may be closed: whoever reads this direction sends the other one."""
    d, opposite = getattr(s, which), getattr(s, other(which))
    if not d.wire:
        return
    unit, rest = d.wire[0], d._replace(wire=d.wire[1:])
    if not opposite.closed:
        yield f'TCP brings {unit}', s._replace(**{which: rest._replace(queue=d.queue + (unit,))})
    elif unit in ('F', 'R'):
        yield f'TCP brings {unit} to a closed socket', s._replace(**{which: rest})
    else:
        yield f'TCP brings {unit} to a closed socket, which resets', s._replace(
            **{which: rest._replace(wire=()), other(which): opposite._replace(wire=('R',))})


def receive(r, s, which):
    """What a look at this direction does; None: nothing."""
    d = getattr(s, which)
    first = d.queue[0] if d.queue else None
    taken = d.pos if d.cur == 'ring' else None
    if d.got:
        return None
    if d.cur == 'ring':
        if taken < min(d.shown, d.sent):
            return d._replace(pos=d.pos + 1)
        ended = d.says_end and d.shown == tokens(d)
        if ended and (first == 'F' or r.end_without_fin):
            return d._replace(got='end')
    if first is None:
        return None
    if first == 'b':
        return d._replace(queue=d.queue[1:])
    if first == 'R':
        # All may be here, by rings, although TCP lost it.
        told = d.says_end and d.shown == tokens(d)
        if told or not (s.gateways or d.shown < d.at):
            return d._replace(got='end' if told and d.pos == d.sent else 'reset')
        return None
    if d.cur == 'ring':
        if first == 'F':
            return None
        if first[0] == 'm':
            if first[1] > d.pos:
                raise Wrong('lost')
            return d._replace(cur='tcp', queue=d.queue[1:], twice=d.pos - first[1])
        return d._replace(cur='tcp', twice=d.pos)
    if first == 'F':
        return d._replace(got='end')
    if d.twice:
        return d._replace(queue=d.queue[1:], twice=d.twice - 1)
    if first[0] != 'd' or first[1] != d.pos:
        raise Wrong(f'{first} comes where {d.pos} is next')
    return d._replace(queue=d.queue[1:], pos=d.pos + 1)


def send(r, s, which):
    d = getattr(s, which)
    bell = ('b',) if r.bells else ()
    if d.mode == 'ring':
        d = d._replace(sent=d.sent + 1, wire=d.wire + bell)
    else:
        d = d._replace(wire=d.wire + (('d', d.sent),), sent=d.sent + 1)
    return s._replace(**{which: d})


def close(r, s, which):
    """The sender of this direction closes its socket, and reads the other one no more. What it finds there that brings
    nothing new it takes first."""
    d = getattr(s, which)
    if d.mode == 'ring' and d.end != 'sent':
        d = hand_back(d, True)
    elif d.end != 'sent':
        d = d._replace(wire=d.wire + ('F',), end='sent')
    s = s._replace(**{which: d._replace(closed=True)})
    while True:
        read = getattr(s, other(which))
        after = receive(r, s, other(which))
        if not after or after.pos > read.pos:
            break
        s = s._replace(**{other(which): after})
    if any(unit not in ('F', 'R') for unit in getattr(s, other(which)).queue):
        s = s._replace(**{which: getattr(s, which)._replace(wire=('R',))})
    return s


def client(r, s):
    if s.client == 'sends':
        yield 'client sends the request', send(r, s, 'there')._replace(client='ends')
    elif s.client == 'ends' and r.closes:
        yield 'client closes', close(r, s, 'there')._replace(client='done')
    elif s.client == 'ends':
        d = s.there
        if d.mode == 'tcp':
            d = d._replace(wire=d.wire + ('F',), end='sent')
        elif r.record_at_once:
            d = hand_back(d, True)
        else:
            d = d._replace(end='wanted', says_end=True)
        yield 'client will send no more', s._replace(there=d, client='reads')
    elif s.client == 'reads':
        d = receive(r, s, 'back')
        if d:
            yield 'client reads', s._replace(back=d, client='done' if d.got else 'reads')


def server(r, s):
    if s.server == 'reads':
        d = receive(r, s, 'there')
        if d:
            enough = d.got or (r.early and d.pos)
            yield 'server reads', s._replace(there=d, server='answers' if enough else 'reads')
    elif s.server == 'answers':
        # A program that was told of a reset has nobody to answer.
        s = s._replace(server='closes')
        yield 'server answers', send(r, s, 'back') if not s.there.got == 'reset' else s
    elif s.server == 'closes':
        yield 'server closes', close(r, s, 'back')._replace(server='done')


def check(name, expected, **changes):
    r = GOOD._replace(**changes)

    def steps(s):
        following = [*client(r, s), *server(r, s)]
        for which in ('there', 'back'):
            named = [*carry(s, which), *keep(s, which)]
            following += [(f'{which}: {label}', s._replace(**{which: d})) for label, d in named]
            following += bring(s, which)
        if s.gateways and r.killed:
            following.append(('a gateway is killed', s._replace(gateways=False)))
        return following

    def final(s):
        if s.client != 'done' or s.server != 'done':
            return f'hangs: client {s.client}, server {s.server}'
        if s.there.pos < 1 or not (r.early or s.there.got == 'end'):
            return f'the server has {s.there.pos} bytes of the request, {s.there.got}'
        if not r.closes and (s.back.pos < 1 or s.back.got != 'end'):
            return f'the client has {s.back.pos} bytes of the answer, {s.back.got}'
        return None

    back = START._replace(mode='tcp', cur='tcp') if r.by_tcp else START
    return explore(name, State(START, back, True, 'sends', 'reads'), steps, final, expected)


def main():
    quiet = {'early': True, 'killed': False}
    results = [
        check('request, half-close, answer; a server that reads to the end', 'holds'),
        check('the same, the answer goes by TCP', 'holds', by_tcp=True),
        check('the client closes at once', 'holds', closes=True),
        check('a server that answers early; no gateway is killed', 'holds', **quiet),
        check('the same, the answer goes by TCP', 'holds', by_tcp=True, **quiet),
        check('broken: a half-close is a record and FIN at once; a server that answers early', 'the client', by_tcp=True,
              record_at_once=True, **quiet),
        check('broken: END is the end without FIN', 'the client', end_without_fin=True),
        check('broken: bells on TCP (the former design); a server that answers early', 'the client', by_tcp=True,
              bells=True, **quiet),
        check('not reached: a server that answers early, and a gateway is killed meanwhile', 'the client', early=True),
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
