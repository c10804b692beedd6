#!/usr/bin/env python3
"""The introduction, every interleaving: who gets to read what is sent over the connection T between a client V and a
server S, when M wants to. Usage: python3 introduction_model.py (seconds; status 0: everything is as expected).

M is whatever a stranger in the same network namespace can be, of any user:
  squatter   M owns a door of the address: V gives him memory Q, as it would give memory A to S
  former     M served the port before, and holds the memory he was given then: the same Q
  liar       M says hello to S with memory B of his own, and claims in it that T is his
  between    M gives S, as his own, the memory Q that V gave to him
  replayer   M writes any number that was ever seen into the memories he holds

Sockets: only V can set what V's end of T shows, only S what the other end does; everybody can read both. Digests are
terms, equal only if all their parts are. Numbers are fresh: a name for each.

Properties:
  P1  V and S put bytes into memory only if nobody but V and S holds it
  P2  S maps only memory that V made
  P3  whatever M does, V and S are left with T on plain TCP, or with a channel in memory of their own: no state is stuck
  P4  (for the protocol that holds) without M the channel comes about: A is used by both
"""
import sys
from collections import deque, namedtuple

MADE_BY = {'A': 'V', 'Q': 'V', 'B': 'M'}
WRITES = 4                               # M writes so often: enough for all that was ever found
OPENER = {'A': 'S', 'Q': 'M'}            # who opened the door through which V gave the memory away
Mem = namedtuple('Mem', 'state nonce challenge')
State = namedtuple('State', 'mems at_s given v_tried v_in v_shows s_in s_shows mapped v_live s_live writes hostile')


class Rules(namedtuple('Rules', 'proof parts one_memory map_first')):
    """proof: possession is proven. parts: what a digest covers. one_memory: an arena goes to all doors of an address.
    map_first: S maps what a hello brings."""


def digest(rules, role, mem, opener, nonce, challenge):
    part = {'memory': mem, 'opener': opener}
    return (role, nonce, challenge) + tuple(part[p] for p in rules.parts)


def start(hostile):
    return State(tuple((m, Mem('free', '-', '-')) for m in 'ABQ'), frozenset(), frozenset('V'), frozenset(), None,
                 '-', None, '-', frozenset(), None, None, 0, hostile)


def mem(s, m):
    return dict(s.mems)[m]


def put(s, m, **new):
    return s._replace(mems=tuple((k, x._replace(**new) if k == m else x) for k, x in s.mems))


def holders(s, rules, m):
    """Who can read memory m by now."""
    if m == 'B':
        return {'M'} | ({'S'} if 'B' in s.at_s else set())
    who = {'V'}
    if m in s.given:
        who.add(OPENER[m])
        if rules.one_memory:
            who |= {'S', 'M'} if s.hostile else {'S'}
    if m in s.at_s:
        who.add('S')
    return who


def steps(rules, hostile, s):
    out = []

    def go(label, t):
        out.append((label, t))

    # --- V: the client of T
    for m in 'AQ':
        if m not in s.given and (m == 'A' or hostile) and not (rules.one_memory and m == 'Q'):
            t = s._replace(given=s.given | {m})
            go(f'V gives {m} to the door of {OPENER[m]}', t._replace(at_s=t.at_s | {m}) if m == 'A' else t)
        if m in s.given and s.v_in is None and s.v_live is None and m not in s.v_tried:
            t = put(s, m, state='offered', nonce='v' + m, challenge='-')
            go(f'V offers T in {m}', t._replace(v_in=m, v_tried=s.v_tried | {m}))
    if s.v_in:
        m, x = s.v_in, mem(s, s.v_in)
        want = digest(rules, 's', m, OPENER[m], 'v' + m, x.challenge)
        if rules.proof and x.state == 'offered' and x.challenge != '-' and s.v_shows == '-' and s.s_shows == want:
            go(f'V sees the proof of S for {m} and shows its own',
               s._replace(v_shows=digest(rules, 'c', m, OPENER[m], 'v' + m, x.challenge)))
        if x.state == 'accepted' and (not rules.proof or s.v_shows != '-'):
            go(f'V confirms in {m}', put(s, m, state='live')._replace(v_live=m, v_in=None, v_shows='-'))
        if x.state == 'offered' or (rules.proof and s.v_shows == '-'):
            go(f'V withdraws from {m}', put(s, m, state='dead')._replace(v_in=None, v_shows='-'))
    # --- S: the server of T
    for m in sorted(s.at_s):
        x = mem(s, m)
        if rules.map_first and m not in s.mapped:
            go(f'S maps {m}', s._replace(mapped=s.mapped | {m}))
        if s.s_in is None and s.s_live is None and x.state == 'offered':
            if not rules.proof:
                go(f'S takes the offer in {m}', put(s, m, state='accepted')._replace(s_in=m))
            elif x.challenge != 's' + m:
                go(f'S shows its proof for {m}', put(s, m, challenge='s' + m)._replace(
                    s_in=m, s_shows=digest(rules, 's', m, 'S', x.nonce, 's' + m)))
    if s.s_in:
        m, x = s.s_in, mem(s, s.s_in)
        # S keeps the nonce that it saw when it answered: s_shows[1].
        if rules.proof and s.s_shows != '-' and s.v_shows == digest(rules, 'c', m, 'S', s.s_shows[1], 's' + m):
            go(f'S sees the proof of V for {m}, maps and accepts',
               put(s, m, state='accepted' if x.state == 'offered' else x.state)._replace(
                   mapped=s.mapped | {m}, s_shows='-'))
        if x.state == 'live' and (not rules.proof or m in s.mapped):
            go(f'S goes live in {m}', s._replace(s_live=m, s_in=None))
        if x.state != 'live':
            go(f'S gives up {m}', s._replace(s_in=None, s_shows='-'))
    # --- M
    if hostile:
        held = [m for m in 'ABQ' if 'M' in holders(s, rules, m)]
        for m in held:
            if m not in s.at_s:
                go(f'M says hello to S with {m}', s._replace(at_s=s.at_s | {m}))
            x = mem(s, m)
            if s.writes < WRITES:
                t = s._replace(writes=s.writes + 1)
                for state in ('offered', 'accepted', 'live'):
                    if state != x.state:
                        go(f'M: {m} is {state}', put(t, m, state=state))
                for word, number in (('nonce', 'vA'), ('nonce', 'vQ'), ('challenge', 'sA'), ('challenge', 'sB'),
                                     ('challenge', 'sQ')):
                    if getattr(x, word) != number:
                        go(f'M writes {word} {number} into {m}', put(t, m, **{word: number}))
    return out


def wrong(rules, s):
    for who, m in (('V', s.v_live), ('S', s.s_live)):
        if m and 'M' in holders(s, rules, m):
            return f'P1: {who} uses {m}, which M can read and write'
    for m in s.mapped:
        if MADE_BY[m] != 'V':
            return f'P2: S maps {m}, which M made'
    return None


def explore(name, rules, hostile, expected):
    first = start(hostile)
    seen, todo, bad, used = {first: None}, deque([first]), None, False
    while todo and not bad:
        s = todo.popleft()
        used |= s.v_live == 'A' and s.s_live == 'A'
        for label, t in steps(rules, hostile, s):
            if t in seen:
                continue
            seen[t] = (s, label)
            what = wrong(rules, t)
            if what:
                bad = (t, what)
                break
            todo.append(t)
    if not bad:
        bad = stuck(seen, rules, hostile)
    if not bad and not hostile and not used:
        bad = (first, 'P4: no channel comes about')
    verdict = bad[1].split(':')[0] if bad else 'holds'
    fine = verdict in expected.split()
    print(f"{'as expected' if fine else '*** UNEXPECTED ***'} | {name}: {bad[1] if bad else 'holds'} ({len(seen)} states)")
    if bad:
        trace, s = [], bad[0]
        while seen[s]:
            s, label = seen[s]
            trace.append(label)
        print('     ' + '; '.join(reversed(trace)))
    return fine


def stuck(seen, rules, hostile):
    """P3: wherever V or S waits in an offer, it can leave it by itself; a channel in use is shared memory of the two."""
    for s in seen:
        mine = [label for label, _ in steps(rules, False, s)]
        v_leaves = s.v_in is None or any(l.startswith(('V withdraws', 'V confirms')) for l in mine)
        s_leaves = s.s_in is None or any(l.startswith(('S gives up', 'S goes live')) for l in mine)
        # V has shown its proof and somebody wrote a state that V has no step for: it is left by patience, as TCP.
        if not v_leaves and not (rules.proof and s.v_shows != '-'):
            return s, 'P3: V is stuck'
        if not s_leaves and not (rules.proof and mem(s, s.s_in).state == 'live'):
            return s, 'P3: S is stuck'
    return None


BY_ADDRESS = Rules(False, (), True, True)
BY_FAMILY = Rules(False, (), False, False)
PLAIN = Rules(True, (), False, False)
MEMORY = Rules(True, ('memory',), False, False)
FULL = Rules(True, ('memory', 'opener'), False, False)
SHARED = Rules(True, ('memory', 'opener'), True, False)
EAGER = Rules(True, ('memory', 'opener'), False, True)


def main():
    results = [
        explore('an arena for an address, nobody proves anything (as it was)', BY_ADDRESS, True, 'P1 P2'),
        explore('the same among friends', BY_ADDRESS, False, 'holds'),
        explore('an arena for a family, nobody proves anything', BY_FAMILY, True, 'P1 P2'),
        explore('proof: the random numbers alone (handed on in other memory, or in the same)', PLAIN, True, 'P1 P2'),
        explore('proof: numbers and memory (the memory itself is handed on)', MEMORY, True, 'P1'),
        explore('proof: numbers, memory and opener, but one arena for all doors', SHARED, True, 'P1'),
        explore('proof: numbers, memory and opener, but hellos are mapped', EAGER, True, 'P2'),
        explore('proof: numbers, memory and opener, an arena for each family', FULL, True, 'holds'),
        explore('the same among friends', FULL, False, 'holds'),
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()
