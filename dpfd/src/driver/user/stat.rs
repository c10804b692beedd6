//! What an endpoint tells of itself.

use std::sync::atomic::Ordering;

use super::endpoint::{UserEndpoint, MAX_MESSAGE};
use super::link::Refused;
use super::packet::plain_limit;
use crate::addr::Addr;
use crate::error::Error;
use crate::stat::Stat;

impl UserEndpoint {
    /// Why nothing goes to `to` that was sent there; none: nobody said that it does not.
    pub fn why_denied(&self, to: Addr) -> Option<Error> {
        let to = if to.nid == self.process.nid { Addr::local(to.dpid) } else { to };
        let tx = self.tx();
        let why = tx.links[tx.find(to)?].refused?;
        Some(self.denied(why, to))
    }

    /// The same in words.
    #[cold]
    pub(super) fn denied(&self, why: Refused, to: Addr) -> Error {
        match why {
            Refused::User => Error::Denied(to),
            Refused::Gateway => Error::NotItsGateway(to),
            Refused::Edge => Error::NoEdge { from: Addr { nid: self.process.nid, dpid: self.dpid }, to },
            Refused::Node => Error::NoRoute(to.nid),
        }
    }

    /// Counters and limits.
    pub fn stat(&self) -> Stat {
        let mut s = Stat { dpid: self.dpid, max_message: MAX_MESSAGE, ..Stat::default() };
        s.max_plain = plain_limit(&self.back);
        s.full = self.full.load(Ordering::Relaxed);
        s.sleeps = self.sleeps.load(Ordering::Relaxed);
        {
            let tx = self.tx();
            s.target = tx.target.map_or(Addr::default(), |ix| tx.links[ix].to);
            for link in &tx.links {
                s.denied += usize::from(link.refused.is_some());
                s.sent = (s.sent.0 + link.sent.0, s.sent.1 + link.sent.1);
            }
        }
        {
            let mut rx = self.rx();
            // An edge that the service has brought since the last receive counts, and so does what lies in it.
            if self.news.load(Ordering::Acquire) {
                self.adopt(&mut rx);
            }
            s.loaned = rx.tokens.loaned();
            s.next_len = rx.tokens.next_len();
            s.corrupt = rx.tokens.corrupt;
            s.edges = rx.tokens.edges().count();
            s.received = rx.tokens.taken();
        }
        if let Some(budget) = &self.arrivals().budget {
            (s.pool, s.pool_left) = (budget.size(), budget.left());
        }
        s
    }
}
