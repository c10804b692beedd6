//! What a gateway stands between: the route, and the programs of its node.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use dp_node::local::{Local, Message};
use dp_route::{Counters, Frames, PeerAddr, Received, Route};
use dpfd::driver::user::deposit::Deposit;
use dpfd::{Addr, Dpid};

use crate::flow::content;
use crate::wire::Wire;

/// Bytes that a packet of the route can have.
const SLOT: usize = 2048;

/// What was sent and has not arrived, what has, and how long frames may be.
pub struct Cable {
    pub wire: Wire,
    pub arrived: [VecDeque<Vec<u8>>; 2],
    pub mtu: usize,
}

/// A node's end of it.
pub struct Tap {
    pub which: usize,
    pub cable: Arc<Mutex<Cable>>,
    pub counters: Counters,
}

pub fn address(which: usize) -> PeerAddr {
    PeerAddr::other("tap", ["n1", "n2"][which]).expect("an address")
}

impl Route for Tap {
    fn name(&self) -> &str {
        "tap"
    }

    fn local(&self) -> PeerAddr {
        address(self.which)
    }

    fn mtu(&mut self, _: &PeerAddr) -> io::Result<usize> {
        Ok(self.cable.lock().unwrap_or_else(PoisonError::into_inner).mtu)
    }

    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        assert_eq!(*to, address(1 - self.which));
        let mut cable = self.cable.lock().unwrap_or_else(PoisonError::into_inner);
        for (sent, frame) in frames.iter().enumerate() {
            if frame.len() > cable.mtu {
                let long = io::Error::from_raw_os_error(libc::EMSGSIZE);
                return if sent > 0 { Ok(sent) } else { Err(long) };
            }
            cable.wire.put(1 - self.which, frame);
        }
        Ok(frames.len())
    }

    fn slot(&self) -> usize {
        SLOT
    }

    fn recv(&mut self, into: &mut Received) -> io::Result<usize> {
        into.clear();
        let slot = into.slot();
        let mut cable = self.cable.lock().unwrap_or_else(PoisonError::into_inner);
        let mut n = 0;
        while n < into.room().len() / slot {
            let Some(frame) = cable.arrived[self.which].pop_front() else { break };
            let length = frame.len().min(slot);
            into.room()[n * slot..][..length].copy_from_slice(&frame[..length]);
            n += into.push(n, address(1 - self.which), length, length);
        }
        Ok(n)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// A message of a program: its number, which is its immediate, and its length.
#[derive(Debug)]
pub struct Sent {
    pub which: usize,
    pub id: u64,
    pub length: usize,
}

impl Message for Sent {
    fn size(&self) -> usize {
        self.length
    }

    fn immediate(&self) -> Option<u64> {
        Some(self.id)
    }

    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        let n = to.len().min(self.length - begin);
        (begin..).zip(&mut to[..n]).for_each(|(at, byte)| *byte = content(self.which, self.id, at));
        n
    }
}

/// The endpoints of a node, which outlive its gateway: for how many messages each has room.
#[derive(Clone, Default)]
pub struct Programs(pub Rc<RefCell<Pools>>);

#[derive(Default)]
pub struct Pools {
    pub which: usize,
    pub room: HashMap<Dpid, usize>,
    /// The last message from there to here.
    pub last: HashMap<(Dpid, Dpid), u64>,
    /// Lengths of all that the other node sent; none: somebody forged frames, and nothing is known.
    pub lengths: Option<Vec<usize>>,
}

impl Local for Programs {
    type Message = Sent;

    fn deposit(
        &mut self,
        from: Addr,
        to: Dpid,
        message: &[u8],
        immediate: Option<u64>,
        published: &mut dyn FnMut(),
    ) -> Deposit {
        let pools = &mut *self.0.borrow_mut();
        assert_eq!(usize::from(from.nid), 2 - pools.which, "it is from the other node");
        assert!(from.dpid != 0 && to != 0 && message.len() <= 16 << 20);
        let Some(room) = pools.room.get_mut(&to) else { return Deposit::Absent };
        if *room == 0 {
            return Deposit::Full;
        }
        *room -= 1;
        if let Some(lengths) = &pools.lengths {
            let id = immediate.expect("as it was sent");
            assert_eq!(message.len(), lengths[id as usize]);
            assert!((0..).zip(message).all(|(at, byte)| *byte == content(1 - pools.which, id, at)));
            let before = pools.last.insert((from.dpid, to), id);
            assert!(before.is_none_or(|before| before < id), "once, and in order");
        }
        published();
        Deposit::Done
    }

    fn reaches(&mut self, _: Addr, to: Dpid) -> bool {
        self.0.borrow().room.contains_key(&to)
    }

    fn has_room(&mut self, _: Addr, to: Dpid, _: usize) -> bool {
        self.0.borrow().room.get(&to).is_some_and(|room| *room > 0)
    }
}
