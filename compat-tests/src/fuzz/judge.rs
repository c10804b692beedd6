//! What of two results must be the same. Linux does not promise everything: how much a receive gets out of many
//! bytes that are under way depends on buffers. What it does promise is compared word by word.

mod call;
mod directions;
mod moves;
mod tells;

use super::script::{Script, Who};
use directions::Directions;

/// With no more than this on its way, every byte has arrived and a receive must get all it asks for.
const SMALL: i64 = 32_000;

/// With more than this on its way, whether there is room for more depends on the sizes of buffers.
const FULL: i64 = 150_000;

/// Stands for any answer.
const ANY: &str = "*";

/// Begins the list of what told of the end of a stream, where how many receives come before it depends on buffers.
const ENDS: &str = "ends:";

/// Whether two comparable results are the same.
pub fn same(one: &str, other: &str) -> bool {
    let ends = |text: &str| text.starts_with(ENDS);
    let begins = ends(one) && ends(other) && (one.starts_with(other) || other.starts_with(one));
    one == other || one == ANY || other == ANY || begins
}

/// Whether mixed up bytes are the script's own doing: two of its threads send, or receive, on one side at the same time.
pub fn is_unfair(script: &Script, results: &[String]) -> bool {
    results.iter().any(|result| result.contains("BAD")) && overlaps(script)
}

fn overlaps(script: &Script) -> bool {
    const SEND: u8 = 1;
    const RECEIVE: u8 = 2;
    let moves = |words: &[String]| {
        words.iter().fold(0, |moves, word| match word.as_str() {
            "send" | "write" | "writev" | "sendmsg" | "sendmmsg" | "sendfile" | "spliceto" | "sendall"
            | "trickle" | "sendto" | "pwritev2" | "headto" => moves | SEND,
            "recv" | "read" | "readv" | "recvmsg" | "recvmmsg" | "recvctl" | "splicefrom" | "drain"
            | "etpump" | "recvfrom" | "preadv2" | "sendfilefrom" | "headfrom" => moves | RECEIVE,
            "warm" | "echo" | "rounds" => SEND | RECEIVE,
            _ => moves,
        })
    };
    let mut threads: Vec<(Who, &str, u8)> = Vec::new();
    script.0.iter().any(|line| {
        let here = moves(&line.words);
        let with = threads
            .iter()
            .any(|(who, _, there)| (*who == line.who || line.who == Who::Both) && there & here != 0);
        match line.word(0) {
            "thread" => threads.push((line.who, line.word(1), here)),
            "join" => threads.retain(|(who, name, _)| (*who, *name) != (line.who, line.word(1))),
            _ => {}
        }
        with
    })
}

/// Whether what TCP said of a line, and what was said under the shim, are the same.
pub fn as_on_tcp(native: &str, other: &str) -> bool {
    // An edge too many wakes who would be stuck on TCP.
    same(native, other) || (native == "stuck" && other == "complete")
}

/// Results without what depends on sizes of buffers.
pub fn comparable(script: &Script, results: &[String]) -> Vec<String> {
    let edges = script.0.iter().any(|line| line.word(0).starts_with("epoll_") && line.word(3).contains("ET"));
    let urgent = script.0.iter().any(|line| line.words.iter().any(|word| word == "oob"));
    let mut directions = Directions::new(edges, urgent);
    // Whether a signal was early enough is a matter of the machine's load.
    let steady = |result: &str| result.trim_end_matches(" early").to_owned();
    script.0.iter().zip(results).map(|(line, result)| directions.comparable(line, &steady(result))).collect()
}
