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

/// Whether two comparable results are the same.
pub fn same(one: &str, other: &str) -> bool {
    one == other || one == ANY || other == ANY
}

/// Results without what depends on sizes of buffers.
pub fn comparable(script: &Script, results: &[String]) -> Vec<String> {
    let mut ways = Ways::default();
    script.0.iter().zip(results).map(|(line, result)| ways.comparable(line, result)).collect()
}

/// How many bytes are on their way, as far as the results tell.
#[derive(Default)]
struct Ways {
    sent: HashMap<&'static str, i64>,
    received: HashMap<&'static str, i64>,
    /// Senders of whose bytes a receive got as many as buffers had it: whether some are left, nobody knows.
    loose: HashSet<&'static str>,
    threads: HashMap<(Who, String), Vec<String>>,
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

    fn comparable(&mut self, line: &Line, result: &str) -> String {
        let mut words: &[String] = &line.words;
        if line.word(0) == "child" {
            words = words.get(2..).unwrap_or_default();
        }
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match word(0) {
            "thread" => {
                let inner: Vec<String> = words.get(2..).unwrap_or_default().to_vec();
                if let Some(total) = background_total(&inner) {
                    *self.sent.entry(key(line.who)).or_default() += total;
                }
                self.threads.insert((line.who, word(1).to_owned()), inner);
                result.to_owned()
            }
            "join" if result != "blocked" => {
                let inner = self.threads.remove(&(line.who, word(1).to_owned())).unwrap_or_default();
                if background_total(&inner).is_some() {
                    return result.to_owned();
                }
                self.operation(line.who, &inner, result)
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
        let bad = if result.contains("BAD") { " BAD" } else { "" };
        match what {
            "send" | "write" | "writev" | "sendmsg" | "sendmmsg" => {
                let many = what == "sendmmsg";
                let wanted = if many { argument(2) * argument(3) } else { argument(2) };
                let sent: i64 = if many { numbers(result).iter().skip(1).sum() } else { count.unwrap_or(0) };
                *self.sent.entry(key(who)).or_default() += sent.max(0);
                let room = count.is_some() || first == "EAGAIN" || first == "blocked";
                if room && going + wanted > FULL {
                    return "as there is room".into();
                }
                result.to_owned()
            }
            "recv" | "read" | "readv" | "recvmsg" | "recvmmsg" => {
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
                if self.loose.contains(key(who.other())) && none_yet && bad.is_empty() {
                    return ANY.into();
                }
                if coming > SMALL && got > 0 {
                    self.loose.insert(key(who.other()));
                    return format!("some{bad}");
                }
                result.to_owned()
            }
            "drain" => {
                *self.received.entry(key(who.other())).or_default() += count.unwrap_or(0);
                let end = result.rsplit(' ').next().unwrap_or_default();
                if self.loose.remove(key(who.other())) {
                    return format!("some{bad} {end}");
                }
                if coming > SMALL && end.starts_with('E') && end != "EAGAIN" {
                    return format!("some{bad} {end}");
                }
                result.to_owned()
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
            "fionread" if coming > SMALL && count.is_some_and(|count| count > 0) => "some".into(),
            "tcp" => String::new(),
            "poll" | "select" | "epoll_seen" if going > SMALL => without_room(result, what),
            _ if what.starts_with("epoll_") && going > SMALL => without_room(result, what),
            _ => result.to_owned(),
        }
    }
}

/// Whether there is room to write is nobody's promise while much is on its way.
fn without_room(result: &str, what: &str) -> String {
    let kept = result.split(' ').skip(usize::from(what != "epoll_seen"));
    let entry =
        |entry: &str| entry.replace("|OUT", "").replace("OUT|", "").replace("OUT", "-").replace('w', "-");
    kept.map(entry).filter(|entry| !entry.ends_with(":-")).collect::<Vec<_>>().join(" ")
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
