//! The state of both directions while a script goes on: bytes under way, ends, and what each side was told.

use std::collections::{HashMap, HashSet};

use super::call::Call;
use super::{ANY, ENDS, SMALL};
use crate::fuzz::script::{Line, Who};

/// How many bytes are on their way, as far as the results tell.
#[derive(Default)]
pub struct Directions {
    pub(super) sent: HashMap<&'static str, i64>,
    pub(super) received: HashMap<&'static str, i64>,
    /// Senders of whose bytes a receive got as many as buffers had it: whether some are left, nobody knows.
    pub(super) loose: HashSet<&'static str>,
    /// What receives and sends of loose senders' bytes were told of the end so far.
    ends: HashMap<&'static str, String>,
    /// Sides that closed, shut down or ended.
    pub(super) ended: HashSet<&'static str>,
    /// Sides that sent when it was not known whether they knew of the other's end.
    pub(super) doubt: HashSet<&'static str>,
    /// Somebody waits for edges.
    pub(super) edges: bool,
    /// What a thread does, and how often the other side had sent when it began.
    threads: HashMap<(Who, String), (Vec<String>, u32)>,
    /// There are urgent bytes, at which Linux' splice says that the stream has ended.
    pub(super) urgent: bool,
    /// Calls of a side do not wait, or not for long.
    pub(super) hasty: bool,
    /// Sides that a wait told of something.
    pub(super) reported: HashSet<&'static str>,
    /// Sends of each side.
    pub(super) sends: HashMap<&'static str, u32>,
    /// Sides that have received of bytes for which there was not room enough, and not waited since; and what the other
    /// side had sent by then.
    pulled: HashMap<&'static str, (u32, bool)>,
    /// Sides that have closed what a thread of theirs still receives from, and what the other side had sent by then: the
    /// connection ends with the thread's call.
    pub(super) held: HashMap<&'static str, u32>,
    /// Sides whose bytes an edge-triggered reader may have stopped to take.
    pub(super) stalled: HashSet<&'static str>,
}

pub fn key(who: Who) -> &'static str {
    if who == Who::Server {
        "server"
    } else {
        "client"
    }
}

impl Directions {
    /// Nothing is under way yet. `edges`: somebody waits for edges; `urgent`: there are urgent bytes.
    pub fn new(edges: bool, urgent: bool) -> Self {
        Self { edges, urgent, ..Self::default() }
    }

    /// What this side has sent and the other has not received.
    pub fn under_way(&self, sender: Who) -> i64 {
        let sent = self.sent.get(key(sender)).copied().unwrap_or_default();
        sent - self.received.get(key(sender)).copied().unwrap_or_default()
    }

    /// Whether a thread of this side receives.
    pub(super) fn receives_aside(&self, who: Who) -> bool {
        let receives = |inner: &[String]| inner.first().is_some_and(|what| what.starts_with("re"));
        self.threads.iter().any(|((of, _), (inner, _))| *of == who && receives(inner))
    }

    pub(super) fn sends_of(&self, who: Who) -> u32 {
        self.sends.get(key(who)).copied().unwrap_or_default()
    }

    /// Whether buffers are full in any direction.
    pub(super) fn is_crowded(&self) -> bool {
        let full = |who: Who| self.under_way(who) > SMALL || self.loose.contains(key(who));
        full(Who::Server) || full(Who::Client)
    }

    /// All that was told of the end of a sender's bytes, after this.
    pub(super) fn end(&mut self, sender: &'static str, told: &str) -> String {
        let ends = self.ends.entry(sender).or_insert_with(|| ENDS.to_owned());
        // How often it is told is a matter of how many receives there are.
        if !(told.is_empty() || told == "0" && ends.ends_with(" 0")) {
            ends.push(' ');
            ends.push_str(told);
        }
        ends.clone()
    }

    /// A line's result without what depends on sizes of buffers.
    pub fn comparable(&mut self, line: &Line, result: &str) -> String {
        let words = without_prefixes(&line.words);
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
            "join" if result != "blocked" => self.joined(line.who, word(1), result),
            _ => {
                if let Some(total) = background_total(words) {
                    *self.sent.entry(key(line.who)).or_default() += total;
                }
                self.operation(line.who, words, result)
            }
        }
    }

    /// What a thread's operation answered.
    fn joined(&mut self, who: Who, name: &str, result: &str) -> String {
        let (inner, before) = self.threads.remove(&(who, name.to_owned())).unwrap_or_default();
        if background_total(&inner).is_some() {
            return if self.stalled.contains(key(who)) { ANY.into() } else { result.to_owned() };
        }
        let comparable = self.operation(who, &inner, result);
        if inner.first().is_some_and(|what| what == "echo") {
            // Which of the two it is depends on whether the other side had some of the echo unread when it closed. Where it
            // had sent more than it waited for, the echo may also have met the end before it sent: Linux tells all three.
            let more = self.sends_of(who.other()) > 0;
            return if more && comparable == "0" {
                "EPIPE".into()
            } else {
                comparable.replace("ECONNRESET", "EPIPE")
            };
        }
        // Of two sends in a row it may get one, or both.
        let some = self.sends_of(who.other()) > before + 1
            && inner.first().is_some_and(|what| what.starts_with("re"))
            && result.starts_with(|first: char| first.is_ascii_digit() && first != '0');
        if some && !result.contains("BAD") {
            self.loose.insert(key(who.other()));
            return ANY.into();
        }
        comparable
    }

    fn operation(&mut self, who: Who, words: &[String], result: &str) -> String {
        let call = Call::new(self, who, words, result);
        if call.tells_events() {
            self.reported.insert(call.me());
        }
        if self.is_of_the_rest(&call) {
            return ANY.into();
        }
        match call.what() {
            "splicefrom" | "sendfilefrom" if self.urgent => ANY.into(),
            "send" | "write" | "writev" | "sendmsg" | "sendmmsg" | "sendfile" | "spliceto" | "sendto"
            | "pwritev2" | "headto" => self.send(&call),
            "recv" | "read" | "readv" | "recvmsg" | "recvmmsg" | "recvctl" | "splicefrom" | "recvfrom"
            | "preadv2" | "sendfilefrom" | "headfrom" => self.receive(&call),
            "drain" => self.drain(&call),
            "etpump" | "rounds" => self.pump(&call),
            "close" | "closerange" | "shutdown" | "kill9" | "_exit" | "exit" | "dup2" | "dup3"
            | "unconnect" => self.goes(&call),
            "nonblock" | "timeo" => {
                self.hasty = true;
                result.to_owned()
            }
            // Small pieces behind many bytes wait for room, how long is a matter of the kernel's. And a receive behind one's
            // own shutdown does not wait, or one that must not.
            "warm" if self.is_crowded() || self.hasty || !self.ended.is_empty() => ANY.into(),
            "echo" if self.is_crowded() => ANY.into(),
            "tcp" => String::new(),
            "fionread" => self.queued(&call),
            "soerror" => self.error(&call),
            "again" => self.again(&call),
            _ if call.asks_readiness() => self.readiness(&call),
            _ => result.to_owned(),
        }
    }

    /// The rest came while the others were received, which is an edge, and tells what is ready then: an end that was told
    /// before, or room. Where all of it lies in a ring, it came at once.
    fn is_of_the_rest(&mut self, call: &Call) -> bool {
        let what = call.what();
        let other = (self.sends_of(call.who.other()), self.ended.contains(call.them()));
        if call.coming > SMALL
            && (what == "drain"
                || what.starts_with("re")
                || what == "splicefrom"
                || what == "sendfilefrom"
                || what == "preadv2")
        {
            self.pulled.insert(call.me(), other);
        }
        let pulled = if call.is_wait() { self.pulled.remove(call.me()) } else { None };
        self.edges && pulled == Some(other)
    }
}

/// The operation itself, which a child of the side or an alarm may be about.
fn without_prefixes(words: &[String]) -> &[String] {
    let skip = match words.first().map(String::as_str) {
        Some("child") => 2,
        Some("alarmed") => 3,
        _ => return words,
    };
    without_prefixes(words.get(skip..).unwrap_or_default())
}

/// How many bytes a side sends beside what it does next.
fn background_total(words: &[String]) -> Option<i64> {
    let argument = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
    match words.first().map(String::as_str) {
        Some("sendall") => Some(argument(2)),
        Some("trickle") => Some(argument(2) * argument(3)),
        _ => None,
    }
}
