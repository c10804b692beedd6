//! Operations that ask: what is ready, how much is there, and which error there was.

use super::call::Call;
use super::directions::Directions;
use super::{ANY, SMALL};

impl Directions {
    /// poll, select, and all of epoll.
    pub(super) fn readiness(&mut self, call: &Call) -> String {
        let (me, them) = (call.me(), call.them());
        if self.loose.contains(them) && (call.asks_at_once() || call.is_wait()) || self.doubt.contains(me) {
            return ANY.into();
        }
        if call.coming > SMALL {
            let ended = self.ended.contains(them) || self.ended.contains(me);
            if ended && (call.asks_at_once() || !self.edges) {
                return without_end(call.result);
            }
            if self.edges && call.what().starts_with("epoll_") {
                // When the bytes come for which there is no room yet, and make an edge.
                return ANY.into();
            }
        }
        // An urgent byte comes behind the others, when there is room for them.
        let late = if self.urgent && call.coming > SMALL { &["PRI"][..] } else { &[] };
        // Where a receive got as many as buffers had it, nobody knows how many are left.
        let crowded = call.going > SMALL || self.loose.contains(me);
        match crowded {
            true if self.ended.contains(them) => without_end(&without_room(call)),
            true => without_room(call),
            false if late.is_empty() => call.result.to_owned(),
            false if call.what() == "select" => without_urgent(call.result),
            false => without(call.result, late),
        }
    }

    /// A connect to where the socket is connected already. Bytes for which there was no room draw a reset from an end that
    /// has shut down, when they come, and then it is connected no more.
    pub(super) fn again(&mut self, call: &Call) -> String {
        let ended = self.ended.contains(call.me()) || self.ended.contains(call.them());
        let unknown = ended && (call.coming > SMALL || call.going > SMALL);
        if unknown { ANY } else { call.result }.to_owned()
    }

    pub(super) fn queued(&mut self, call: &Call) -> String {
        if self.loose.contains(call.them()) {
            return ANY.into();
        }
        let some = call.coming > SMALL && call.count().is_some_and(|count| count > 0);
        if some { "some" } else { call.result }.to_owned()
    }

    pub(super) fn error(&mut self, call: &Call) -> String {
        let (me, them) = (call.me(), call.them());
        if self.loose.contains(them) {
            if call.first() == "ECONNRESET" {
                drop(self.end(them, call.first()));
            }
            return ANY.into();
        }
        self.lose_behind_reset(call);
        let unknown = self.doubt.contains(me)
            || call.going > SMALL && self.ended.contains(them)
            || call.coming > SMALL && self.ended.contains(me);
        if unknown { ANY } else { call.result }.to_owned()
    }
}

/// A FIN behind bytes for which there is no room has not come.
fn without_end(result: &str) -> String {
    without(result, &["RDHUP", "ERR", "HUP"])
}

/// Whether there is room to write is nobody's promise while much is on its way.
fn without_room(call: &Call) -> String {
    let entries = call.result.split(' ').skip(usize::from(call.what() != "epoll_seen"));
    let kept = entries.map(|entry| entry.replace('w', "-"));
    without(&kept.collect::<Vec<_>>().join(" "), &["OUT"])
}

/// The same of select, which counts what it tells.
fn without_urgent(result: &str) -> String {
    result.split(' ').skip(1).map(|entry| entry.trim_end_matches('x')).collect::<Vec<_>>().join(" ")
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
