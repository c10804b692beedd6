//! How an endpoint's messages to other nodes are to go: by which route, and whether raw, without anybody who acknowledges them.
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
pub use crate::edge::beside::code;
use crate::error::{Error, Result};

/// Names that an endpoint remembers to be some; others are looked up each time.
const ROUTES_MOST: usize = 16;

/// How a sender wants its messages to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct How {
    /// The route's code ([`code`]); 0: whichever the graph says.
    pub route: u64,
    /// Raw; else as the graph says.
    pub raw: bool,
}

impl How {
    /// Whether it says anything.
    pub fn is_said(self) -> bool {
        self != How::default()
    }
}

/// What endpoint `from` of this node sends to `to` is to go like that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The sender.
    pub from: Dpid,
    /// The receiver, of another node.
    pub to: Addr,
    /// How.
    pub how: How,
    /// Its link ended, and no other one of that sender says anything. What came over it may still wait to be taken.
    pub ended: bool,
}

impl UserEndpoint {
    /// Names the route, or none.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRoute`].
    pub fn set_route(&self, name: Option<&str>) -> Result<()> {
        name.map_or(Ok(()), |name| self.look_up_route(name))?;
        self.route.store(name.map_or(0, code), Ordering::Release);
        self.process.command(Command::Route(self.entry.serial));
        Ok(())
    }

    /// Whether the gateway has a route of that name, or had when a message of this endpoint first named it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRoute`].
    pub fn permit_route(&self, name: &str) -> Result<()> {
        let code = code(name);
        if self.tx().routes.contains(&code) {
            return Ok(());
        }
        self.look_up_route(name)?;
        let mut tx = self.tx();
        if tx.routes.len() < ROUTES_MOST {
            tx.routes.push(code);
        }
        Ok(())
    }

    fn look_up_route(&self, name: &str) -> Result<()> {
        let all = self.process.registry.routes();
        if all.iter().any(|route| route == name) {
            return Ok(());
        }
        let why = match all[..] {
            [] => "no gateway serves it here; start one in this DP_RUNTIME_DIR (dp node)".into(),
            _ => format!("its gateway has {}; name one of these", all.join(", ")),
        };
        Err(Error::NoSuchRoute { name: name.to_string(), why })
    }

    /// Messages to other nodes go raw from now on. For good: what was to go reliably again could be overtaken by that word, and
    /// lost.
    pub fn set_raw(&self) {
        self.raw.store(true, Ordering::Release);
        self.process.command(Command::Route(self.entry.serial));
    }
}
