//! What a gateway needs of its own node: a message that a program sent, and a way to its endpoints.

use dpfd::driver::user::deposit::Deposit;
use dpfd::{Addr, Dpid};

/// A message of a program here, which stays as it is until it is dropped: then its sender has the room back.
pub trait Message {
    /// Bytes, 0 to 16777216.
    fn size(&self) -> usize;

    /// The 8 bytes beside it.
    fn immediate(&self) -> Option<u64>;

    /// The code of the route that it is to go by ([`dpfd::driver::user::route::code`]); 0: it names none.
    fn route(&self) -> u64 {
        0
    }

    /// Copies what is behind its first `begin` bytes, as far as `to` has room; how much that was.
    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize;
}

/// The endpoints of this node.
pub trait Local {
    /// What their programs send.
    type Message: Message;

    /// Hands a message of `from`, of another node, to endpoint `to` of this one. Done: it is there, whatever happens to this
    /// process, and `published` was called in the very moment. Else nobody tells when that changes.
    fn deposit(
        &mut self,
        from: Addr,
        to: Dpid,
        message: &[u8],
        immediate: Option<u64>,
        published: &mut dyn FnMut(),
    ) -> Deposit;

    /// Whether endpoint `to` is open, as far as is known: then it is worth putting together a message for it.
    fn reaches(&mut self, from: Addr, to: Dpid) -> bool;

    /// Whether one that is open has room now for a message of so many bytes from there, which nobody else can take from it.
    fn has_room(&mut self, from: Addr, to: Dpid, bytes: usize) -> bool;

    /// Times that an endpoint of another node had to wait, for as many as may be have what they need here.
    fn crowded(&self) -> u64 {
        0
    }
}
