#!/usr/bin/env python3
"""One direction of a TCP connection between nodes whose bytes go by the gateways (docs/TCP-BETWEEN-NODES.md), every
interleaving. Usage: python3 nodes_bytes_model.py (seconds; with `long` as argument, minutes; status 0:
everything is as expected).

    sender --ring A--> gateway A ==flow==> gateway B --ring B--> receiver
       \\____________________ TCP: raw bytes, or one record _____________/

The two directions of a connection share nothing, so one is enough here; how they end is nodes_ends_model.py.

The sender's bytes are 0, 1, 2 ... A token in a ring is (epoch, begin, byte): the epoch began at byte `begin`. On TCP there
are ('d', byte), ('m', byte): a record, whose first byte is not that of ('d', begin), and which says that `byte` is next;
'F', the end; 'R', a reset. Any process may be killed between any two of its steps; TCP and flow are as late as they like.

Properties: the program at the receiver gets each byte once and in order, never a record, and none is missing:
  while the sender lives, whatever happens to the gateways: all bytes, then the end of the stream;
  if the sender is killed: all bytes and the end, or a reset. Never an end with bytes missing. While its bytes are in a ring
  and the gateways live, no reset.
"""
import sys
from collections import namedtuple

from explorer import Wrong, explore

State = namedtuple('State', (
    # TCP: on its way, and in the receiver's kernel
    'wire queue '
    # sender: the next byte; 'tcp', 'ring' or 'back' (it owes bytes to TCP); epoch and where it began; what it owes; its end
    'sent mode epoch begin owed end '
    # all tokens that were ever in ring A; how many A took, B published, B acknowledged, the sender knows acknowledged
    'ring at_a shown answered acked '
    # gateways: alive or not; the flow's rest is lost; what B is about to do; 0 nothing agreed, 1 receiver accepted, 2 live
    'a b lost b_next agreed '
    # receiver: next byte for the program; bytes on TCP that it had from the ring; ring epoch (0: TCP) and its begin; the last
    # epoch that is over; tokens taken from ring B; what it does next, and what it counted; wake word; event; how it ended
    'pos twice cur cur_begin closed taken next counted word event result'))

START = State((), (), 0, 'tcp', 0, 0, (), 'open', (), 0, 0, 0, 0, True, True, False, 'idle', 0,
              0, 0, 0, 0, 0, 0, 'count', 0, '-', False, None)


class Rules(namedtuple('Rules', 'bytes epochs room kills ends keeper at_any_time early_answer same_first always_record '
                       'ring_first keep_twice tcp_first look_again look_before fin_when_killed silent_if_acked over_early')):
    """bytes, epochs, room (tokens in each ring): sizes. kills: who is killed, of 'A', 'B' and 'X', the sender. ends: it
    closes. keeper: somebody hands back for a sender that makes no call. at_any_time: it hands back for no reason. The rest
    are the faults of the broken variants."""


GOOD = Rules(3, 1, 2, '', True, True, False, False, False, False, False, False, False, True, False, False, False, False)


def data(begin, end):
    return tuple(('d', byte) for byte in range(begin, end))


def sender(r, s):
    if s.end == 'killed':
        return
    if 'X' in r.kills and s.end == 'open' and (s.mode != 'tcp' or r.bytes > s.sent):
        abrupt = s.mode != 'tcp' and not r.fin_when_killed
        # A reset takes along what is still on its way.
        yield 'sender is killed', s._replace(end='killed', wire=('R',) if abrupt else s.wire + ('F',), owed=())
    if s.owed:
        yield f'sender puts {s.owed[0]} on TCP', s._replace(
            wire=s.wire + s.owed[:1], owed=s.owed[1:], mode='back' if s.owed[1:] else 'tcp')
        return
    done, full = s.sent == r.bytes, len(s.ring) - s.acked >= r.room
    if s.mode == 'tcp':
        if not done:
            yield 'sender sends on TCP', s._replace(wire=s.wire + data(s.sent, s.sent + 1), sent=s.sent + 1)
            if s.agreed == 2 and s.epoch < r.epochs and not full and (r.over_early or not s.wire):
                yield 'sender goes over', s._replace(
                    mode='ring', epoch=s.epoch + 1, begin=s.sent, sent=s.sent + 1,
                    ring=s.ring + ((s.epoch + 1, s.sent, s.sent),))
        elif r.ends and s.end == 'open':
            yield 'sender closes', s._replace(wire=s.wire + ('F',), end='closed')
    elif s.mode == 'ring':
        if not done and not full:
            yield 'sender puts a token', s._replace(ring=s.ring + ((s.epoch, s.begin, s.sent),), sent=s.sent + 1)
        hears = not s.a or not s.b
        idle = done and not r.ends
        if r.at_any_time or (not done and full) or (done and r.ends) or (hears and (r.keeper or not idle)):
            yield 'sender hands back', hand_back(r, s)


def hand_back(r, s):
    """What nobody is known to have goes onto TCP again. Behind a record, if the receiver is known to have the epoch's first
    token; else it may not know of the epoch, and what follows are raw bytes from its begin."""
    first = s.sent
    if s.acked < len(s.ring):
        epoch, _, byte = s.ring[s.acked]
        first = byte if epoch == s.epoch else s.begin
    owed = data(first, s.sent)
    if first > s.begin or r.always_record:
        owed = (('m', first),) + owed
        if r.silent_if_acked and len(owed) == 1:
            owed = ()
    return s._replace(mode='back' if owed else 'tcp', owed=owed)


def gateways(r, s):
    if s.a and s.b and s.agreed < 2:
        yield ('receiver accepts', 'sender hears of it')[s.agreed], s._replace(agreed=s.agreed + 1)
    if s.a:
        if s.at_a < len(s.ring):
            yield 'A takes a token', s._replace(at_a=s.at_a + 1)
        elif s.end == 'killed' and s.ring and s.ring[-1][0] != 'end':
            yield 'A says where it ends', s._replace(ring=s.ring + (('end', s.sent, s.sent),))
        if s.acked < s.answered:
            yield 'A hears what is acknowledged', s._replace(acked=s.answered)
        if 'A' in r.kills:
            yield 'A is killed', s._replace(a=False)
    elif not s.lost and s.shown < s.at_a:
        yield 'the rest of the flow is lost', s._replace(lost=True)
    if s.b:
        if 'B' in r.kills:
            yield 'B is killed', s._replace(b=False)
        # Not of an epoch's first token, or the record would be read as data: another fault.
        if s.answered < (s.at_a if r.early_answer and s.shown else s.shown):
            yield 'B acknowledges', s._replace(answered=s.answered + 1)
        yield from publish(r, s)


def publish(r, s):
    can = s.shown < s.at_a and not s.lost and s.shown - s.taken < r.room
    armed = s.word == 'armed'
    if s.b_next == 'idle' and can:
        if r.look_before:
            yield 'B looks at the word', s._replace(b_next='publish and ring' if armed else 'publish')
        else:
            yield 'B publishes', s._replace(shown=s.shown + 1, b_next='look')
    elif s.b_next.startswith('publish'):
        yield 'B publishes', s._replace(shown=s.shown + 1, b_next='ring' if 'ring' in s.b_next else 'idle')
    elif s.b_next == 'look':
        yield 'B looks at the word', s._replace(b_next='ring' if armed else 'idle')
    elif s.b_next == 'ring':
        yield 'B rings', s._replace(event=True, word='-', b_next='idle')


def network(s):
    if s.wire:
        yield f'TCP brings {s.wire[0]}', s._replace(wire=s.wire[1:], queue=s.queue + s.wire[:1])


def deliver(s, byte, **new):
    if byte != s.pos:
        raise Wrong(f'{"twice" if byte < s.pos else "lost"}: byte {byte} comes where {s.pos} is next')
    return s._replace(pos=s.pos + 1, **new)


def receive(r, s, counted, shown):
    """What a receive does that counted so many things on TCP, and then saw so many tokens in ring B. None: nothing."""
    head = s.ring[s.taken] if s.agreed and s.taken < shown else None
    if s.cur:
        return from_ring(r, s, counted, head)
    on_tcp = s.pos - s.twice               # the byte that is next on TCP
    limit = counted
    if head and head[0] != 'end':
        epoch, begin, _ = head
        if epoch <= s.closed or begin < on_tcp:      # over, or its sender thought better of it
            return s._replace(taken=s.taken + 1)
        if begin == on_tcp:
            return s._replace(cur=epoch, cur_begin=begin)
        limit = min(limit, begin - on_tcp)
    if not limit:
        return None
    first = s.queue[0]
    if first == 'R':
        # With a token ahead, the bytes before its begin are gone.
        return s._replace(result='reset') if head and head[0] != 'end' else killed(s, head)
    if first == 'F':
        return s._replace(queue=s.queue[1:], result='end')
    if first[0] == 'm':
        raise Wrong('a record is read as data')
    if s.twice:
        return s._replace(queue=s.queue[1:], twice=s.twice - 1)
    return deliver(s, first[1], queue=s.queue[1:])


def from_ring(r, s, counted, head):
    if head and head[0] == s.cur and not (r.tcp_first and counted):
        return deliver(s, head[2], taken=s.taken + 1)
    if not counted:
        return None
    first = s.queue[0]
    if first == 'R':
        return killed(s, head)
    if first == 'F':
        return s._replace(result='end')
    back = s._replace(cur=0, closed=s.cur)
    if first[0] == 'd':                   # its sender thought better of it
        if r.same_first:
            raise Wrong('data is read as a record')
        return back._replace(twice=0 if r.keep_twice else s.pos - s.cur_begin)
    if first[1] > s.pos:
        raise Wrong(f'lost: TCP goes on at {first[1]} where {s.pos} is next')
    return back._replace(queue=s.queue[1:], twice=0 if r.keep_twice else s.pos - first[1])


def killed(s, head):
    """The sender's end is a reset while its bytes are in rings. Then gateway A says where they end."""
    if head and head[0] == 'end':
        return s._replace(result='end' if head[2] == s.pos else 'reset')
    hears = not s.b or (not s.a and (s.lost or s.shown == s.at_a))
    return s._replace(result='reset') if hears or not s.agreed else None


def receiver(r, s):
    if s.result:
        return
    now = len(s.queue), s.shown
    if s.next == 'count':
        # Count first, then look at the ring (E6). The other way round is broken.
        yield 'receiver counts', s._replace(next='look', counted=now[r.ring_first])
    elif s.next == 'look':
        counted, shown = (now[0], s.counted) if r.ring_first else (s.counted, now[1])
        t = receive(r, s, counted, shown)
        if t:
            yield 'receiver takes something', t._replace(next='count', counted=0)
        else:
            yield 'receiver finds nothing', s._replace(next='arm', counted=counted)
    elif s.next == 'arm':
        yield 'receiver arms', s._replace(next='again' if r.look_again else 'asleep', word='armed')
    elif s.next == 'again':
        if receive(r, s, *now):
            yield 'receiver finds something', s._replace(next='count', word='-')
        else:
            yield 'receiver sleeps', s._replace(next='asleep')
    elif s.next == 'asleep':
        hears = s.queue and s.queue[0] == 'R' and receive(r, s, *now)
        if s.event or now[0] > s.counted or hears:
            yield 'receiver wakes', s._replace(next='count', counted=0, event=False, word='-')


def check(name, expected, **changes):
    r = GOOD._replace(**changes)

    def steps(s):
        return [*sender(r, s), *gateways(r, s), *network(s), *receiver(r, s)]

    def final(s):
        if s.end == 'killed':
            if s.result == 'end' and s.pos < s.sent:
                return f'cut off: the end of the stream after {s.pos} of {s.sent} bytes'
            if s.mode == 'ring' and s.a and s.b and s.result == 'reset':
                return f'needless: a reset after {s.pos} of {s.sent} bytes, though the gateways have the rest'
            return None if s.result else 'hangs: the sender was killed and nobody says so'
        if r.ends and s.result != 'end' or s.pos < r.bytes:
            return f'hangs: {s.pos} of {r.bytes} bytes, {s.result or s.next}'
        return None

    return explore(name, START, steps, final, expected)


def main():
    results = [
        check('nobody is killed', 'holds'),
        check('the same without an end, which could rescue who sleeps', 'holds', ends=False),
        check('either gateway is killed, or both', 'holds', bytes=2, kills='AB'),
        check('the same without an end; somebody hands back for an idle sender', 'holds', bytes=2, kills='AB', ends=False),
        check('handed back at any time, gateways alive or not', 'holds', bytes=2, kills='AB', at_any_time=True),
        check('over and back twice', 'holds', epochs=2, at_any_time=True, room=1),
        check('the sender is killed', 'holds', bytes=2, kills='X'),
        check('all three are killed', 'holds', bytes=2, kills='ABX', at_any_time=True, room=1),
        check('broken: lines are given back when B has the bytes, before they are in ring B', 'lost',
              kills='B', early_answer=True),
        check('broken: a record may begin like the byte that it stands for', 'data is read', kills='A', same_first=True),
        check('broken: a record also where the receiver may not know of the epoch', 'a record', kills='A',
              always_record=True),
        check('broken: the ring is looked at before TCP is counted', 'a record', ring_first=True),
        check('broken: the record is taken before the ring is empty', 'lost', tcp_first=True, at_any_time=True),
        check('broken: what came by the ring is not skipped on TCP', 'twice', kills='A', keep_twice=True),
        check('broken: a receiver that armed does not look again', 'hangs', bytes=2, look_again=False, ends=False),
        check('broken: B looks at the word before it publishes', 'hangs', bytes=2, look_before=True, ends=False),
        check('broken: no record where everything was acknowledged', 'hangs', bytes=2, kills='B', silent_if_acked=True,
              ends=False),
        check('broken: nobody hands back for an idle sender', 'hangs', bytes=2, kills='AB', keeper=False, ends=False),
        check('broken: a sender that is killed ends by FIN', 'cut off', kills='AX', fin_when_killed=True),
        check('broken: it goes over while bytes are on their way by TCP, and is killed', 'needless', kills='X',
              over_early=True),
    ]
    if 'long' in sys.argv:
        results += [
            check('long: either gateway is killed, or both', 'holds', kills='AB'),
            check('long: the same without an end', 'holds', kills='AB', ends=False),
            check('long: handed back at any time', 'holds', kills='AB', at_any_time=True),
            check('long: over and back twice', 'holds', bytes=4, epochs=2, at_any_time=True),
            check('long: over and back twice, either gateway is killed', 'holds', epochs=2, kills='AB', at_any_time=True),
            check('long: all three are killed', 'holds', kills='ABX', at_any_time=True),
        ]
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
