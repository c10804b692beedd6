//! One operation and what it answered, with what is known of the two directions when it was done.

use super::directions::{key, Directions};
use crate::fuzz::script::Who;

/// See the module.
pub struct Call<'a> {
    pub who: Who,
    /// Its operation first.
    pub words: &'a [String],
    pub result: &'a str,
    /// What the other side has sent and this one has not received, and the other way round.
    pub coming: i64,
    pub going: i64,
}

impl<'a> Call<'a> {
    pub fn new(directions: &Directions, who: Who, words: &'a [String], result: &'a str) -> Self {
        Self {
            who,
            words,
            result,
            coming: directions.under_way(who.other()),
            going: directions.under_way(who),
        }
    }

    pub fn what(&self) -> &'a str {
        self.words.first().map_or("", String::as_str)
    }

    /// A number among its words; none is 0.
    pub fn argument(&self, at: usize) -> i64 {
        self.words.get(at).and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    pub fn first(&self) -> &'a str {
        self.result.split(' ').next().unwrap_or_default()
    }

    /// What it returned, unless it failed.
    pub fn count(&self) -> Option<i64> {
        self.first().parse().ok()
    }

    /// The sum of what it says behind its count: the lengths of several messages.
    pub fn sum_behind_count(&self) -> i64 {
        self.result.split(' ').filter_map(|word| word.parse::<i64>().ok()).skip(1).sum()
    }

    pub fn is_bad(&self) -> bool {
        self.result.contains("BAD")
    }

    /// A suffix of an answer that is not compared: foreign bytes are seen in it all the same.
    pub fn bad(&self) -> &'static str {
        if self.is_bad() {
            " BAD"
        } else {
            ""
        }
    }

    /// This side, and the other one.
    pub fn me(&self) -> &'static str {
        key(self.who)
    }

    pub fn them(&self) -> &'static str {
        key(self.who.other())
    }

    /// Whether it is a wait on an epoll set.
    pub fn is_wait(&self) -> bool {
        let what = self.what();
        what == "epoll_raw" || what.starts_with("epoll_wait") || what.starts_with("epoll_pwait")
    }

    /// Whether it is one, or many, and told of something.
    pub fn tells_events(&self) -> bool {
        let some = self.is_wait() && self.count().is_some_and(|n| n > 0);
        some || self.what() == "epoll_seen" && self.result.contains(':')
    }

    /// Whether it asks what is ready: poll and its like, or anything of an epoll set's.
    pub fn asks_readiness(&self) -> bool {
        let registers = matches!(self.what(), "epoll_add" | "epoll_mod" | "epoll_del");
        self.asks_at_once() || self.what().starts_with("epoll_") && !registers
    }

    /// The same of those that tell all there is each time.
    pub fn asks_at_once(&self) -> bool {
        matches!(self.what(), "poll" | "ppoll" | "select" | "epoll_seen")
    }
}
