//! Operations that move bytes, or end a direction.

use super::call::Call;
use super::directions::Directions;
use super::{ANY, FULL, SMALL};

impl Directions {
    pub(super) fn send(&mut self, call: &Call) -> String {
        let (me, them) = (call.me(), call.them());
        *self.sends.entry(me).or_default() += 1;
        let many = call.what() == "sendmmsg";
        let wanted = if many { call.argument(2) * call.argument(3) } else { call.argument(2) };
        let sent = if many { call.sum_behind_count() } else { call.count().unwrap_or(0) };
        *self.sent.entry(me).or_default() += sent.max(0);
        let before = self.held.get(them).copied();
        if before.is_some_and(|before| many || self.sends_of(call.who) > before + 1) {
            // The first one ends the other side's last receive, and with it the connection, sooner or later.
            self.doubt.insert(me);
        }
        if self.doubt.contains(me) {
            return ANY.into();
        }
        let room = call.count().is_some() || matches!(call.first(), "EAGAIN" | "blocked");
        if room && (call.going + wanted > FULL || self.loose.contains(me)) {
            if call.coming > SMALL && self.ended.contains(them) {
                self.doubt.insert(me);
            }
            return "as there is room".into();
        }
        if call.going > SMALL
            && self.ended.contains(them)
            && (call.count().is_some() || call.first() == "EPIPE")
        {
            // What did not fit into the other's buffer may have drawn the reset before.
            return ANY.into();
        }
        if call.coming > SMALL && (self.ended.contains(them) || self.ended.contains(me)) {
            // A FIN behind bytes for which there is no room has not come, and what this draws depends on that. To
            // an end that has shut down the rest of them draws a reset when there is room.
            self.doubt.insert(me);
            return ANY.into();
        }
        if self.loose.contains(them) {
            // Whether a receive was told before depends on how many there were.
            match call.first() {
                "ECONNRESET" => drop(self.end(them, call.first())),
                "EPIPE" => {}
                _ => return call.result.to_owned(),
            }
            return ANY.into();
        }
        call.result.to_owned()
    }

    pub(super) fn receive(&mut self, call: &Call) -> String {
        let (me, them) = (call.me(), call.them());
        // It asks for the error first, see `error`.
        let asks_first = call.what() == "recvmmsg"
            && (call.going > SMALL && self.ended.contains(them)
                || call.coming > SMALL && self.ended.contains(me));
        if asks_first && !call.is_bad() {
            self.doubt.insert(me);
            return ANY.into();
        }
        let got = if call.what() == "recvmmsg" { call.sum_behind_count() } else { call.count().unwrap_or(0) };
        if !call.words.iter().any(|word| word == "peek") {
            *self.received.entry(them).or_default() += got;
        }
        self.doubt_own_end(call);
        if self.doubt.contains(me) && !call.is_bad() {
            if call.coming > SMALL && got > 0 {
                self.loose.insert(them);
            }
            return ANY.into();
        }
        if self.loose.contains(them) && !call.is_bad() {
            return match got > 0 || matches!(call.first(), "EAGAIN" | "blocked") {
                true => ANY.into(),
                // It says how many messages there were first.
                false if call.what() == "recvmmsg" && call.count().is_some() => self.end(them, "0"),
                false => self.end(them, call.first()),
            };
        }
        self.lose_behind_reset(call);
        // A pipe has room for so many packets, and a ring has none.
        if got > 0
            && (call.coming > SMALL
                || matches!(call.what(), "splicefrom" | "sendfilefrom")
                || self.loose.contains(them))
        {
            self.loose.insert(them);
            return format!("some{}", call.bad());
        }
        call.result.to_owned()
    }

    pub(super) fn drain(&mut self, call: &Call) -> String {
        let (me, them) = (call.me(), call.them());
        *self.received.entry(them).or_default() += call.count().unwrap_or(0);
        let end = call.result.rsplit(' ').next().unwrap_or_default();
        if end != "EAGAIN" && end != "EBADF" {
            // Nothing comes any more, however much there was room for before.
            let sent = self.sent.get(them).copied().unwrap_or_default();
            self.received.insert(them, sent);
        }
        self.doubt_own_end(call);
        if self.doubt.contains(me) && !call.is_bad() {
            return ANY.into();
        }
        if self.loose.contains(them) && !call.is_bad() && end != "EAGAIN" {
            return self.end(them, end);
        }
        let failed = end.starts_with('E') && end != "EAGAIN";
        if self.loose.remove(them) || call.coming > SMALL && (failed || self.ended.contains(me)) {
            return format!("some{} {end}", call.bad());
        }
        call.result.to_owned()
    }

    /// A reset that was told before the bytes in front of it has taken those for which there was no room.
    pub(super) fn lose_behind_reset(&mut self, call: &Call) {
        if call.coming > SMALL && call.first() == "ECONNRESET" {
            self.loose.insert(call.them());
        }
    }

    /// Behind one's own shutdown, what comes of bytes for which there was no room draws a reset, and is lost.
    fn doubt_own_end(&mut self, call: &Call) {
        if call.coming > SMALL && self.ended.contains(call.me()) {
            self.doubt.insert(call.me());
        }
    }

    pub(super) fn pump(&mut self, call: &Call) -> String {
        // Another wait has had the edge; or the kernel of a side that has shut down says nothing of new room.
        let stalls = self.reported.contains(call.me()) || self.ended.contains(call.me());
        if stalls && !call.is_bad() {
            *self.received.entry(call.them()).or_default() += call.argument(3);
            self.stalled.insert(call.them());
            return ANY.into();
        }
        if call.what() == "etpump" && call.first() == "complete" {
            *self.received.entry(call.them()).or_default() += call.argument(3);
        }
        call.result.to_owned()
    }

    /// A side closes, shuts down, or ends.
    pub(super) fn goes(&mut self, call: &Call) -> String {
        // The second shutdown finds no connection if bytes for which there was no room have drawn a reset.
        let again = self.ended.contains(call.them()) || self.ended.contains(call.me());
        let unknown = call.what() == "shutdown" && again && (call.coming > SMALL || call.going > SMALL);
        self.ended.insert(call.me());
        if self.receives_aside(call.who) {
            self.held.insert(call.me(), self.sends_of(call.who.other()));
        }
        if unknown {
            return ANY.into();
        }
        if self.loose.contains(call.them()) {
            // Whether some are unread, which makes a reset of it, nobody knows.
            self.doubt.insert(call.them());
        }
        call.result.to_owned()
    }
}
