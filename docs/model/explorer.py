"""What the models of connections between nodes share: every state that can be reached, each once. It is no model itself."""
from collections import deque


class Wrong(Exception):
    """A step that must not happen."""


def explore(name, first, steps, final, expected):
    """Goes through all states from `first`. `steps` gives the (label, state) that can follow, `final` says what is wrong with
    a state that none follows, or nothing. `expected`: 'holds', or the beginning of what must be found. True: it was so."""
    seen, todo, found = {first: None}, deque([first]), None
    while todo and not found:
        s = todo.popleft()
        try:
            following = steps(s)
        except Wrong as wrong:
            found = (s, str(wrong))
            break
        if not following:
            what = final(s)
            found = (s, what) if what else None
        for label, t in following:
            if t not in seen:
                seen[t] = (s, label)
                todo.append(t)
    verdict = found[1] if found else 'holds'
    fine = verdict.startswith(expected)
    print(f"{'as expected' if fine else '*** UNEXPECTED ***'} | {name}: {verdict} ({len(seen)} states)")
    if found:
        trace, s = [], found[0]
        while seen[s]:
            s, label = seen[s]
            trace.append(label)
        print('     ' + '; '.join(reversed(trace)))
    return fine
