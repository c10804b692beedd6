//! Differences by design: each with its reason, and where users are told of it.

use super::script::{Line, Script, Who};

struct Known {
    reason: &'static str,
    applies: fn(&Script, &Line, native: &str, other: &str) -> bool,
}

/// As few as possible.
const TABLE: &[Known] = &[
    Known {
        reason: "Linux' recvmmsg leaves ERESTARTSYS (512) of an interrupted wait for the next call, a number that programs never see",
        applies: |script, line, native, _| native.contains("E512") || left_by_recvmmsg(script, line, native),
    },
    Known {
        reason: "a wait that finds a connection ready in user space asks the kernel for the rest every 50 us or 32 waits (PROTOCOLS W6)",
        applies: |script, line, native, other| {
            only_later(script, line, native, other)
        },
    },
    Known {
        reason: "an edge is told once more where that cannot be told from a new one: a value that descriptors share, or bytes on both sides of a switch; one too few would be a fault",
        applies: told_again,
    },
    Known {
        reason: "a peer that was killed while its sender sends without a pause is found gone after a tenth of a millisecond, or 64 sends (docs/ENDS.md)",
        applies: gone_just_now,
    },
    Known {
        reason: "a poll for bytes alone that finds some in the ring asks nobody whether the peer was killed behind them (docs/ENDS.md)",
        applies: bytes_hide_death,
    },
    Known {
        reason: "a receive with a time limit may sleep in poll(2), which goes on behind SIGSTOP and SIGCONT, where Linux' own is interrupted (signal(7); dp-preload(7))",
        applies: stopped_in_a_receive,
    },
];

/// Whether poll says that there is an error, on a side that has called recvmmsg.
fn left_by_recvmmsg(script: &Script, line: &Line, native: &str) -> bool {
    let before = script.0.iter().take_while(|at| !std::ptr::eq(*at, line));
    native.contains("ERR")
        && before.into_iter().any(|at| at.who == line.who && at.words.iter().any(|word| word == "recvmmsg"))
}

/// Whether a wait reports edges beside what it reports on TCP, see the reason.
fn told_again(script: &Script, line: &Line, native: &str, other: &str) -> bool {
    let adds = |at: &&Line| matches!(at.word(0), "epoll_add" | "epoll_mod") && at.who == line.who;
    let sends_much = script.0.iter().filter(|at| at.who == line.who.other()).any(|at| {
        let size = at.words.last().and_then(|size| size.parse::<u32>().ok());
        ["send", "write"].iter().any(|send| at.word(0).starts_with(send))
            && size.is_some_and(|size| size > 32_000)
    });
    let events = |result: &str| result.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let mut more = events(other);
    for event in events(native) {
        match more.iter().position(|other| *other == event) {
            Some(at) => drop(more.remove(at)),
            None => return false,
        }
    }
    // So does an option that only TCP can bring about.
    let harmless = |at: &Line| ["DP_SPIN", "DP_LOG"].iter().any(|name| at.word(1).starts_with(name));
    let switches = script.0.iter().any(|at| at.word(0) == "env" && !harmless(at) || leaves(at));
    let sends_much = sends_much || switches;
    // Something must have happened since the last wait, or it is the same edge again.
    let at = script.0.iter().position(|one| std::ptr::eq(one, line)).unwrap_or_default();
    let since = script.0[..at].iter().rev().take_while(|at| at.who != line.who || !waits(at));
    let happened = since.filter(|at| at.who != Who::Nobody).count() > 0;
    waits(line)
        && happened
        && !more.is_empty()
        && more.iter().all(|event| {
            let data = event.split(':').next().unwrap_or_default();
            let rows = || script.0.iter().filter(adds).filter(|at| at.word(4) == data);
            let several = rows().any(|at| rows().any(|other| other.word(2) != at.word(2)));
            // Of one event a second report is none of an edge.
            let last = script.0[..at].iter().filter(adds).rfind(|at| at.word(4) == data);
            let once = last.is_some_and(|at| at.word(3).contains("ONESHOT"));
            rows().any(|at| at.word(3).contains("ET")) && (several || sends_much && !once)
        })
}

/// Whether a send succeeds whose last one was a moment ago, and the other process has ended.
fn gone_just_now(script: &Script, line: &Line, native: &str, other: &str) -> bool {
    let Some(at) = script.0.iter().position(|one| std::ptr::eq(one, line)) else { return false };
    let before = &script.0[..at];
    let ended = before.iter().any(|at| at.who == line.who.other() && ends(at, line.who.other()));
    let pause = before
        .iter()
        .rev()
        .take_while(|at| !(at.who == line.who && sends(at)))
        .any(|at| at.word(0) == "settle");
    if sends(line) {
        return ended
            && !pause
            && !(native.starts_with(|c: char| c.is_ascii_digit()) && other.contains("SIGPIPE"));
    }
    // What was sent after the end counts as unread at the end.
    let behind = before.iter().rev().skip_while(|at| !(at.who == line.who && sends(at))).skip(1);
    let at_once = behind.take_while(|at| at.word(0) != "settle").any(|at| ends(at, line.who.other()));
    at_once && native.ends_with('0') && other.ends_with("ECONNRESET")
}

/// Whether a poll that asks for nothing but bytes says that there are some, and no more, of a peer that was killed.
fn bytes_hide_death(script: &Script, line: &Line, native: &str, other: &str) -> bool {
    let before = script.0.iter().take_while(|at| !std::ptr::eq(*at, line));
    let killed = before.into_iter().any(|at| ends(at, line.who.other()));
    let for_bytes = line.words.iter().skip(2).all(|word| word.ends_with(":IN"));
    let polls = matches!(line.word(0), "poll" | "ppoll");
    // A call of before may have been told of the error.
    let is_told = |end| native == other.replace("IN", end);
    killed && polls && for_bytes && (is_told("IN|ERR|HUP") || is_told("IN|HUP"))
}

/// Whether a side has been stopped whose receives have a time limit, and a thread of its is asked for.
fn stopped_in_a_receive(script: &Script, line: &Line, _: &str, _: &str) -> bool {
    let before = || script.0.iter().take_while(|at| !std::ptr::eq(*at, line)).filter(|at| at.who == line.who);
    let limited = before().any(|at| at.word(0) == "timeo" && at.word(2) == "rcv");
    let stopped = before().any(|at| at.word(0) == "stop");
    limited && stopped && matches!(line.word(0), "join" | "signal")
}

fn sends(at: &Line) -> bool {
    at.word(0).starts_with("send") || at.word(0).starts_with("write")
}

fn ends(at: &Line, who: Who) -> bool {
    let word = if at.word(0) == "child" { at.word(2) } else { at.word(0) };
    at.who == who && matches!(word, "kill9" | "_exit" | "exit")
}

/// Whether it sets an option that only TCP can bring about.
fn leaves(at: &Line) -> bool {
    at.word(0) == "setopt" && matches!(at.word(2), "lowat" | "peekoff")
}

fn waits(line: &Line) -> bool {
    line.words
        .iter()
        .any(|word| word == "epoll_raw" || word.starts_with("epoll_wait") || word.starts_with("epoll_pwait"))
}

/// Whether all that is missing in a wait with something to report is of descriptors that only the kernel knows.
fn only_later(script: &Script, line: &Line, native: &str, other: &str) -> bool {
    let events = |result: &str| result.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (native, other) = (events(native), events(other));
    // Of room for what goes by TCP the kernel alone knows. An edge of it, or the one report, is another matter.
    let by_tcp = script.0.iter().any(|at| at.word(1).starts_with("DP_CHAOS"));
    let is_level = |event: &str| {
        let data = event.split(':').next().unwrap_or_default();
        let once = |at: &Line| at.word(3).contains("ET") || at.word(3).contains("ONESHOT");
        !script.0.iter().any(|at| at.word(0).starts_with("epoll_") && at.word(4) == data && once(at))
    };
    let rest = |event: &String| match by_tcp && is_level(event) {
        true => event.replace("|OUT", ""),
        false => event.clone(),
    };
    let missing: Vec<_> =
        native.iter().filter(|event| !other.contains(event) && !other.contains(&rest(event))).collect();
    waits(line)
        && !other.is_empty()
        && other.iter().all(|event| native.iter().any(|all| event == all || *event == rest(all)))
        && line.words.last().is_some_and(|time| time != "0")
        && missing.iter().all(|event| {
            let data = event.split(':').next().unwrap_or_default();
            let of =
                |at: &&Line| at.word(0).starts_with("epoll_") && at.who == line.who && at.word(4) == data;
            let stands = |at: &&Line| !is_changed(script, at, line);
            script.0.iter().filter(of).filter(stands).all(|at| is_foreign(script, line, at.word(2)))
        })
}

/// Whether what `at` has registered is registered with other data when `line` comes.
fn is_changed(script: &Script, at: &Line, line: &Line) -> bool {
    let behind = script.0.iter().skip_while(|one| !std::ptr::eq(*one, at)).skip(1);
    let mut between = behind.take_while(|one| !std::ptr::eq(*one, line));
    between.any(|one| {
        one.who == at.who
            && one.word(0) == "epoll_mod"
            && (one.word(1), one.word(2)) == (at.word(1), at.word(2))
    })
}

/// Whether this name of a side's is never that of a connection.
fn is_foreign(script: &Script, line: &Line, name: &str) -> bool {
    let made =
        |at: &Line| matches!(at.word(0), "eventfd" | "pipe") && at.words[1..].iter().any(|word| word == name);
    let copied = |at: &Line| at.word(0).starts_with("dup") && at.word(2) == name;
    let of_side = || script.0.iter().filter(|at| at.who == line.who);
    of_side().any(made) && !of_side().any(copied)
}

/// Why this line differs, if that is by design.
pub fn known(script: &Script, line: usize, native: &str, other: &str) -> Option<&'static str> {
    let at = &script.0[line];
    TABLE.iter().find(|known| (known.applies)(script, at, native, other)).map(|known| known.reason)
}
