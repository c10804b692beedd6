//! Differences by design: each with its reason, and where users are told of it.

use super::script::{Line, Script};

struct Known {
    reason: &'static str,
    applies: fn(&Script, &Line, native: &str, other: &str) -> bool,
}

/// As few as possible.
const TABLE: &[Known] = &[
    Known {
        reason: "Linux' recvmmsg leaves ERESTARTSYS (512) of an interrupted wait for the next call, a number that programs never see",
        applies: |_, _, native, _| native.contains("E512"),
    },
    Known {
        reason: "a wait that finds a connection ready in user space asks the kernel for the rest every 50 us or 32 waits (PROTOCOLS W6)",
        applies: only_later,
    },
];

/// Whether all that is missing in a wait with something to report is of descriptors that only the kernel knows.
fn only_later(script: &Script, line: &Line, native: &str, other: &str) -> bool {
    let waits = line.words.iter().any(|word| word == "epoll_raw" || word.starts_with("epoll_wait"))
        || line.words.iter().any(|word| word.starts_with("epoll_pwait"));
    let events = |result: &str| result.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (native, other) = (events(native), events(other));
    let missing: Vec<_> = native.iter().filter(|event| !other.contains(event)).collect();
    waits
        && !other.is_empty()
        && other.iter().all(|event| native.contains(event))
        && line.words.last().is_some_and(|time| time != "0")
        && missing.iter().all(|event| {
            let data = event.split(':').next().unwrap_or_default();
            let of =
                |at: &&Line| at.word(0).starts_with("epoll_") && at.who == line.who && at.word(4) == data;
            script.0.iter().filter(of).all(|at| is_foreign(script, line, at.word(2)))
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
