//! The route by which an endpoint's messages to other nodes are to go.
//!
//! ```text
//!   sender's program            sender's service              gateway's service          gateway
//!   route("eth") ---------------> Note::Route, on each link --> wish ------------------> which line its flow stands in
//!     the name is looked for in gateway.routes
//! ```
//!
//! It is told with each link to another node, so a gateway that comes back knows it again, and one that is forgotten with its
//! link costs nobody anything: where a link ended, its route is dropped when what was sent over it has gone. A name is told as its code: a note has no room for more, and a gateway knows all names that
//! there are.

use std::sync::atomic::Ordering;

use super::endpoint::UserEndpoint;
use super::shared::Command;
use crate::addr::{Addr, Dpid};
use crate::error::{Error, Result};

/// What endpoint `from` of this node sends to `to` is to go by a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The sender.
    pub from: Dpid,
    /// The receiver, of another node.
    pub to: Addr,
    /// The route's code ([`code`]); 0: whichever the graph says.
    pub route: u64,
    /// Its link ended, and no other one of that sender names a route. What came over it may still wait to be taken.
    pub ended: bool,
}

/// A name in 64 bits (FNV-1a); never 0.
pub fn code(name: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

impl UserEndpoint {
    /// Names the route, or none.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRoute`].
    pub fn set_route(&self, name: Option<&str>) -> Result<()> {
        if let Some(name) = name {
            let all = self.process.registry.routes();
            if !all.iter().any(|route| route == name) {
                let why = match all[..] {
                    [] => "no gateway serves it here; start one in this DP_RUNTIME_DIR (dp node)".into(),
                    _ => format!("its gateway has {}; name one of these", all.join(", ")),
                };
                return Err(Error::NoSuchRoute { name: name.to_string(), why });
            }
        }
        self.route.store(name.map_or(0, code), Ordering::Release);
        self.process.command(Command::Route(self.entry.serial));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_have_codes_of_their_own() {
        let names = ["udp", "eth", "sim", "shm", "a", "b", "ab", "ba"];
        let codes: std::collections::HashSet<u64> = names.into_iter().map(code).collect();
        assert_eq!(codes.len(), names.len());
        assert!(!codes.contains(&0));
    }
}
