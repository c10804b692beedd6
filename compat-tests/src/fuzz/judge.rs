//! What of two results must be the same. Linux does not promise everything: how much a receive gets out of many
//! bytes that are under way depends on buffers. What it does promise is compared word by word.

use std::collections::{HashMap, HashSet};

use super::script::{Line, Script, Who};

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
            | "trickle" => moves | SEND,
            "recv" | "read" | "readv" | "recvmsg" | "recvmmsg" | "recvctl" | "splicefrom" | "drain"
            | "etpump" => moves | RECEIVE,
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
    let mut ways = Ways { edges, urgent, ..Ways::default() };
    // Whether a signal was early enough is a matter of the machine's load.
    let steady = |result: &str| result.trim_end_matches(" early").to_owned();
    script.0.iter().zip(results).map(|(line, result)| ways.comparable(line, &steady(result))).collect()
}

/// How many bytes are on their way, as far as the results tell.
#[derive(Default)]
struct Ways {
    sent: HashMap<&'static str, i64>,
    received: HashMap<&'static str, i64>,
    /// Senders of whose bytes a receive got as many as buffers had it: whether some are left, nobody knows.
    loose: HashSet<&'static str>,
    /// What receives and sends of loose senders' bytes were told of the end so far.
    ends: HashMap<&'static str, String>,
    /// Sides that closed, shut down or ended.
    ended: HashSet<&'static str>,
    /// Sides that sent when it was not known whether they knew of the other's end.
    doubt: HashSet<&'static str>,
    /// Somebody waits for edges.
    edges: bool,
    /// What a thread does, and how often the other side had sent when it began.
    threads: HashMap<(Who, String), (Vec<String>, u32)>,
    /// There are urgent bytes, at which Linux' splice says that the stream has ended.
    urgent: bool,
    /// Calls of a side do not wait, or not for long.
    hasty: bool,
    /// Sides that a wait told of something.
    reported: HashSet<&'static str>,
    /// Sends of each side.
    sends: HashMap<&'static str, u32>,
    /// Sides that have received of bytes for which there was not room enough, and not waited since; and what the other
    /// side had sent by then.
    pulled: HashMap<&'static str, (u32, bool)>,
    /// Sides whose bytes an edge-triggered reader may have stopped to take.
    stalled: HashSet<&'static str>,
}

fn key(who: Who) -> &'static str {
    if who == Who::Server {
        "server"
    } else {
        "client"
    }
}

impl Ways {
    /// What this side has sent and the other has not received.
    fn under_way(&self, sender: Who) -> i64 {
        let sent = self.sent.get(key(sender)).copied().unwrap_or_default();
        sent - self.received.get(key(sender)).copied().unwrap_or_default()
    }

    fn sends_of(&self, who: Who) -> u32 {
        self.sends.get(key(who)).copied().unwrap_or_default()
    }

    /// Whether buffers are full in any direction.
    fn is_crowded(&self) -> bool {
        let full = |who: Who| self.under_way(who) > SMALL || self.loose.contains(key(who));
        full(Who::Server) || full(Who::Client)
    }

    /// All that was told of the end of a sender's bytes, after this.
    fn end(&mut self, sender: Who, told: &str) -> String {
        let ends = self.ends.entry(key(sender)).or_insert_with(|| ENDS.to_owned());
        if !told.is_empty() {
            ends.push(' ');
            ends.push_str(told);
        }
        ends.clone()
    }

    fn comparable(&mut self, line: &Line, result: &str) -> String {
        let mut words: &[String] = &line.words;
        loop {
            let skip = match words.first().map(String::as_str) {
                Some("child") => 2,
                Some("alarmed") => 3,
                _ => break,
            };
            words = words.get(skip..).unwrap_or_default();
        }
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match word(0) {
            "thread" => {
                let inner: Vec<String> = words.get(2..).unwrap_or_default().to_vec();
                if let Some(total) = background_total(&inner) {
                    *self.sent.entry(key(line.who)).or_default() += total;
                }
                let before = self.sends_of(line.who.other());
                self.threads.insert((line.who, word(1).to_owned()), (inner, before));
                result.to_owned()
            }
            "join" if result != "blocked" => {
                let (inner, before) =
                    self.threads.remove(&(line.who, word(1).to_owned())).unwrap_or_default();
                if background_total(&inner).is_some() {
                    return if self.stalled.contains(key(line.who)) { ANY.into() } else { result.to_owned() };
                }
                let comparable = self.operation(line.who, &inner, result);
                // Of two sends in a row it may get one, or both.
                let some = self.sends_of(line.who.other()) > before + 1
                    && inner.first().is_some_and(|what| what.starts_with("re"))
                    && result.starts_with(|first: char| first.is_ascii_digit() && first != '0');
                match some && !result.contains("BAD") {
                    true => {
                        self.loose.insert(key(line.who.other()));
                        ANY.into()
                    }
                    false => comparable,
                }
            }
            _ => {
                let words = words.to_vec();
                if let Some(total) = background_total(&words) {
                    *self.sent.entry(key(line.who)).or_default() += total;
                }
                self.operation(line.who, &words, result)
            }
        }
    }

    fn operation(&mut self, who: Who, words: &[String], result: &str) -> String {
        let what = words.first().map_or("", String::as_str);
        let argument =
            |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
        let first = result.split(' ').next().unwrap_or_default();
        let count: Option<i64> = first.parse().ok();
        let coming = self.under_way(who.other());
        let going = self.under_way(who);
        // Where a receive got as many as buffers had it, nobody knows how many are left.
        let crowded = going > SMALL || self.loose.contains(key(who));
        let bad = if result.contains("BAD") { " BAD" } else { "" };
        let is_wait =
            what == "epoll_raw" || what.starts_with("epoll_wait") || what.starts_with("epoll_pwait");
        if is_wait && count.is_some_and(|n| n > 0) {
            self.reported.insert(key(who));
        }
        let other = (self.sends_of(who.other()), self.ended.contains(key(who.other())));
        if coming > SMALL && (what == "drain" || what.starts_with("re") || what == "splicefrom") {
            self.pulled.insert(key(who), other);
        }
        // The rest came while the others were received, which is an edge, and tells what is ready then: an end that was told
        // before, or room. Where all of it lies in a ring, it came at once.
        let pulled = if is_wait { self.pulled.remove(key(who)) } else { None };
        if self.edges && pulled == Some(other) {
            return ANY.into();
        }
        match what {
            "splicefrom" if self.urgent => ANY.into(),
            "send" | "write" | "writev" | "sendmsg" | "sendmmsg" | "sendfile" | "spliceto" => {
                *self.sends.entry(key(who)).or_default() += 1;
                let many = what == "sendmmsg";
                let wanted = if many { argument(2) * argument(3) } else { argument(2) };
                let sent: i64 = if many { numbers(result).iter().skip(1).sum() } else { count.unwrap_or(0) };
                *self.sent.entry(key(who)).or_default() += sent.max(0);
                if self.doubt.contains(key(who)) {
                    return ANY.into();
                }
                let room = count.is_some() || first == "EAGAIN" || first == "blocked";
                if room && (going + wanted > FULL || self.loose.contains(key(who))) {
                    if coming > SMALL && self.ended.contains(key(who.other())) {
                        self.doubt.insert(key(who));
                    }
                    return "as there is room".into();
                }
                if going > SMALL
                    && self.ended.contains(key(who.other()))
                    && (count.is_some() || first == "EPIPE")
                {
                    // What did not fit into the other's buffer may have drawn the reset before.
                    return ANY.into();
                }
                if coming > SMALL && (self.ended.contains(key(who.other())) || self.ended.contains(key(who)))
                {
                    // A FIN behind bytes for which there is no room has not come, and what this draws depends on that. To
                    // an end that has shut down the rest of them draws a reset when there is room.
                    self.doubt.insert(key(who));
                    return ANY.into();
                }
                if self.loose.contains(key(who.other())) {
                    // Whether a receive was told before depends on how many there were.
                    match first {
                        "ECONNRESET" => drop(self.end(who.other(), first)),
                        "EPIPE" => {}
                        _ => return result.to_owned(),
                    }
                    return ANY.into();
                }
                result.to_owned()
            }
            // It asks for the error first, see "soerror".
            "recvmmsg"
                if bad.is_empty()
                    && ((going > SMALL && self.ended.contains(key(who.other())))
                        || (coming > SMALL && self.ended.contains(key(who)))) =>
            {
                self.doubt.insert(key(who));
                ANY.into()
            }
            "recv" | "read" | "readv" | "recvmsg" | "recvmmsg" | "recvctl" | "splicefrom" => {
                let got: i64 = if what == "recvmmsg" {
                    numbers(result).iter().skip(1).sum()
                } else {
                    count.unwrap_or(0)
                };
                let peeks = words.iter().any(|word| word == "peek");
                if !peeks {
                    *self.received.entry(key(who.other())).or_default() += got;
                }
                let none_yet = got > 0 || first == "EAGAIN" || first == "blocked";
                if self.doubt.contains(key(who)) && bad.is_empty() {
                    if coming > SMALL && got > 0 {
                        self.loose.insert(key(who.other()));
                    }
                    return ANY.into();
                }
                if self.loose.contains(key(who.other())) && bad.is_empty() {
                    return match none_yet {
                        true => ANY.into(),
                        false => self.end(who.other(), first),
                    };
                }
                // A pipe has room for so many packets, and a ring has none.
                if got > 0
                    && (coming > SMALL || what == "splicefrom" || self.loose.contains(key(who.other())))
                {
                    self.loose.insert(key(who.other()));
                    return format!("some{bad}");
                }
                result.to_owned()
            }
            "drain" => {
                *self.received.entry(key(who.other())).or_default() += count.unwrap_or(0);
                let end = result.rsplit(' ').next().unwrap_or_default();
                if end != "EAGAIN" && end != "EBADF" {
                    // Nothing comes any more, however much there was room for before.
                    let sent = self.sent.get(key(who.other())).copied().unwrap_or_default();
                    self.received.insert(key(who.other()), sent);
                }
                if self.doubt.contains(key(who)) && bad.is_empty() {
                    return ANY.into();
                }
                if self.loose.contains(key(who.other())) && bad.is_empty() && end != "EAGAIN" {
                    return self.end(who.other(), end);
                }
                if self.loose.remove(key(who.other())) {
                    return format!("some{bad} {end}");
                }
                let failed = end.starts_with('E') && end != "EAGAIN";
                if coming > SMALL && (failed || self.ended.contains(key(who))) {
                    return format!("some{bad} {end}");
                }
                result.to_owned()
            }
            // Another wait has had the edge; or the kernel of who has shut down says nothing of new room.
            "etpump" | "rounds"
                if bad.is_empty() && (self.reported.contains(key(who)) || self.ended.contains(key(who))) =>
            {
                *self.received.entry(key(who.other())).or_default() += argument(3);
                self.stalled.insert(key(who.other()));
                ANY.into()
            }
            "etpump" => {
                if first == "complete" {
                    *self.received.entry(key(who.other())).or_default() += argument(3);
                }
                result.to_owned()
            }
            "fionread" | "poll" | "select" | "epoll_seen" if self.loose.contains(key(who.other())) => {
                ANY.into()
            }
            _ if what.starts_with("epoll_")
                && (what.contains("wait") || what == "epoll_raw")
                && self.loose.contains(key(who.other())) =>
            {
                ANY.into()
            }
            // Small pieces behind many bytes wait for room, how long is a matter of the kernel's. And a receive behind one's
            // own shutdown does not wait, or one that must not.
            "nonblock" | "timeo" => {
                self.hasty = true;
                result.to_owned()
            }
            "warm" if self.is_crowded() || self.hasty || !self.ended.is_empty() => ANY.into(),
            "echo" if self.is_crowded() => ANY.into(),
            _ if self.doubt.contains(key(who))
                && (matches!(what, "poll" | "select") || what.starts_with("epoll_")) =>
            {
                ANY.into()
            }
            "poll" | "select" | "epoll_seen"
                if coming > SMALL
                    && (self.ended.contains(key(who.other())) || self.ended.contains(key(who))) =>
            {
                without_end(result)
            }
            // When the bytes come for which there is no room yet, and make an edge.
            _ if what.starts_with("epoll_") && coming > SMALL && self.edges => ANY.into(),
            _ if what.starts_with("epoll_") && coming > SMALL && self.ended.contains(key(who.other())) => {
                without_end(result)
            }
            "shutdown" if coming > SMALL && self.ended.contains(key(who.other())) => {
                self.ended.insert(key(who));
                ANY.into()
            }
            "close" | "closerange" | "shutdown" | "kill9" | "_exit" | "exit" | "dup2" | "dup3" => {
                self.ended.insert(key(who));
                if self.loose.contains(key(who.other())) {
                    // Whether some are unread, which makes a reset of it, nobody knows.
                    self.doubt.insert(key(who.other()));
                }
                result.to_owned()
            }
            "fionread" if coming > SMALL && count.is_some_and(|count| count > 0) => "some".into(),
            "tcp" => String::new(),
            "soerror" if self.loose.contains(key(who.other())) => {
                if first == "ECONNRESET" {
                    drop(self.end(who.other(), first));
                }
                ANY.into()
            }
            "soerror" if self.doubt.contains(key(who)) => ANY.into(),
            "soerror"
                if (going > SMALL && self.ended.contains(key(who.other())))
                    || (coming > SMALL && self.ended.contains(key(who))) =>
            {
                ANY.into()
            }
            _ if crowded
                && (matches!(what, "poll" | "select") || what.starts_with("epoll_"))
                && self.ended.contains(key(who.other())) =>
            {
                without_end(&without_room(result, what))
            }
            "poll" | "select" | "epoll_seen" if crowded => without_room(result, what),
            _ if what.starts_with("epoll_") && crowded => without_room(result, what),
            _ => result.to_owned(),
        }
    }
}

/// A FIN behind bytes for which there is no room has not come.
fn without_end(result: &str) -> String {
    without(result, &["RDHUP", "ERR", "HUP"])
}

/// Whether there is room to write is nobody's promise while much is on its way.
fn without_room(result: &str, what: &str) -> String {
    let kept = result.split(' ').skip(usize::from(what != "epoll_seen")).map(|entry| entry.replace('w', "-"));
    without(&kept.collect::<Vec<_>>().join(" "), &["OUT"])
}

/// What a wait told without some of its events, and without whom nothing else was told of.
fn without(result: &str, events: &[&str]) -> String {
    let entry = |entry: &str| {
        let (data, told) =
            entry.split_once(':').map_or(("", entry), |(data, told)| (&entry[..=data.len()], told));
        let kept: Vec<_> = told.split('|').filter(|event| !events.contains(event)).collect();
        format!("{data}{}", if kept.is_empty() { "-".to_owned() } else { kept.join("|") })
    };
    result.split(' ').map(entry).filter(|entry| !entry.ends_with(":-")).collect::<Vec<_>>().join(" ")
}

fn background_total(words: &[String]) -> Option<i64> {
    let argument = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
    match words.first().map(String::as_str) {
        Some("sendall") => Some(argument(2)),
        Some("trickle") => Some(argument(2) * argument(3)),
        _ => None,
    }
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(' ').filter_map(|word| word.parse().ok()).collect()
}
