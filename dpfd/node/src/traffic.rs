//! A flow between one endpoint here and one there, with what waits on both of its sides.

use dp_flow::{Address, Config, Counts, Event, Flow, Invalid, Link, Place, State};
use dp_graph::trust::Users;
use dpfd::{Addr, Nid};

use crate::incoming::{Budget, Incoming};
use crate::local::Message;
use crate::outgoing::Outgoing;
use crate::places::{Ends, Places, Slot};
use crate::raw::Datagrams;
use crate::WINDOW;

mod coming;
mod datagrams;
mod memory;

/// Parts for which a flow has memory at first.
pub const BEGIN: usize = 16;
/// Bytes for parts where there is little left, which are charged to nobody; one part always fits. Eight of 1428 do.
pub const LEAST: usize = 12 << 10;
/// Parts that it took, after which it is to have memory for as many as there may be.
const ACTIVE: u32 = 8;
/// What the sink refused is offered again after this time, nanoseconds, at first.
const AGAIN: u64 = 50_000;

/// A flow, with what waits.
#[derive(Debug)]
pub struct Traffic<M> {
    ends: Ends,
    /// The endpoint there, as programs here call it.
    remote: Addr,
    flow: Box<Flow<Vec<u8>, WINDOW>>,
    out: Outgoing<M>,
    incoming: Incoming,
    /// A frame of that node's began it.
    is_theirs: bool,
    /// Where its place is kept.
    slot: Slot,
    /// The sink refused something: when to offer it again, and how long to wait after that.
    again: Option<u64>,
    pause: u64,
    /// When it last refused, the receiver was not open.
    absent: bool,
    /// By which way frames go to that node, as far as is known: what the flow knows of round trips is of that one.
    way: Option<usize>,
    /// By which way its frames come, and who sends them, here; nothing: it is not known yet, or is not asked.
    by: usize,
    user: Option<u32>,
    /// How often an incarnation ended.
    restarts: u64,
    /// When something was last sent, acknowledged or taken; when something was taken.
    used: u64,
    taken: u64,
    /// Bytes of the parts that it can keep, and what it had of the memory for them: less where little was left.
    memory: usize,
    charged: usize,
    /// Parts that it took, as far as that is counted.
    active: u32,
    /// The longest part that goes to that node, bytes, and that may go there later; the last frame acknowledged one as long as
    /// the former.
    part_max: u16,
    part_most: u16,
    full_arrived: bool,
    /// Whether the program here sends raw; what was sent like that, or came; and what that is made with.
    sends_raw: bool,
    datagrams: Option<Box<Datagrams<M>>>,
    config: Config,
    /// Some message named a route of its own: parts may be on their way by several.
    is_mixed: bool,
}

/// What both sides of all flows with a node share.
#[derive(Debug)]
pub struct Shared<'a, L> {
    /// Whose endpoints these are.
    pub owner: u32,
    /// Who users of that node are here.
    pub users: &'a Users,
    /// The endpoints here.
    pub local: &'a mut L,
    /// What that node may make this process keep.
    pub budget: &'a mut Budget,
    /// All of it.
    pub most: usize,
    /// Where places of flows are kept.
    pub places: &'a mut Places,
}

impl<M: Message> Traffic<M> {
    /// Between endpoint `ends.here` of node `nid` and `ends.there` of node `peer`, whose longest part and checksum `like`
    /// says; with so many bytes of memory for parts, at least one.
    ///
    /// # Errors
    ///
    /// As [`Flow::new`].
    pub fn new(nid: Nid, peer: Nid, ends: Ends, like: Like, memory: usize) -> Result<Traffic<M>, Invalid> {
        let from = Address { nid, dpid: ends.here };
        let to = Address { nid: peer, dpid: ends.there };
        let config = Config {
            part_max: like.part_max,
            user: like.user,
            shortest: like.shortest,
            // That a node is there, its probes find out, for all flows at once.
            keepalive: 0,
            // A flow never gives a peer up that does not answer: what it sent may have come, and would come twice if it
            // began anew. It goes on when the peer is back, and a peer that was restarted says how far it was.
            dead_after: u64::MAX,
            resume: like.resume,
            // 0 is nobody's name.
            ..Config::new(from, to, like.incarnation.max(1), like.checksum)
        };
        Ok(Traffic {
            ends,
            remote: Addr { nid: peer, dpid: ends.there },
            flow: Box::new(Flow::new(config, vec![0; memory])?),
            out: Outgoing::default(),
            incoming: Incoming::default(),
            is_theirs: false,
            slot: like.slot,
            again: None,
            pause: AGAIN,
            absent: false,
            way: None,
            by: 0,
            user: None,
            restarts: 0,
            used: 0,
            taken: 0,
            memory,
            charged: 0,
            active: 0,
            part_max: like.part_max,
            part_most: like.part_max,
            full_arrived: false,
            sends_raw: false,
            datagrams: None,
            config,
            is_mixed: false,
        })
    }

    /// Which endpoints.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// A frame of that node's began it.
    pub fn begun_there(&mut self) {
        self.is_theirs = true;
    }

    /// Whether one did: such count for [`Limits::flows`](crate::Limits::flows).
    pub fn is_theirs(&self) -> bool {
        self.is_theirs
    }

    /// A program here sends.
    pub fn send(&mut self, now: u64, message: M) {
        self.used = now;
        if message.route() != 0 && !core::mem::replace(&mut self.is_mixed, true) {
            self.flow.set_link(None);
        }
        if self.sends_raw {
            return self.send_raw(now, message);
        }
        self.out.push(message);
        self.out.offer(now, &mut self.flow);
    }

    /// Writes the next frame, if there is one.
    pub fn poll_transmit(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        // The flow's window keeps it from having the way for itself.
        self.poll_flow(now, out).or_else(|| self.poll_datagrams(out))
    }

    fn poll_flow(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        loop {
            let length = self.flow.poll_transmit(now, &mut self.out, out);
            // What it says may make room for more.
            if length.is_some() || !self.listen(now) {
                return length;
            }
        }
    }

    /// When to call [`Traffic::deliver`] and [`Traffic::poll_transmit`] again at the latest.
    pub fn next_timeout(&self) -> Option<u64> {
        [self.flow.next_timeout(), self.again()].into_iter().flatten().min()
    }

    /// Hears what the flow has to say, and gives it what it has room for. Whether there was anything.
    fn listen(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(event) = self.flow.poll_event() {
            any = true;
            match event {
                Event::Delivered { before } => self.out.delivered(before),
                Event::Lost { before, .. } => self.out.lost(before),
                // What there is of a message is void with the next one's first part, which may have come already: with the
                // very frame that ended the incarnation.
                Event::Down(_) => {
                    self.restarts += 1;
                    self.greet_for_datagrams(now);
                }
                Event::Up => {}
            }
        }
        self.out.offer(now, &mut self.flow) || any
    }

    /// When to call [`Traffic::deliver`], whether anything can leave or not.
    pub fn again(&self) -> Option<u64> {
        [self.again, self.datagrams_timeout()].into_iter().flatten().min()
    }

    /// Nothing waits on either side but for a receiver that is not open, so the flow can be forgotten; it begins anew when it
    /// is wanted.
    pub fn is_quiet(&self) -> bool {
        let state = self.flow.state();
        let waits = self.again.is_some() && !self.absent;
        self.waiting() == 0 && !waits && state.flying == 0 && state.lost == 0
    }

    /// Whether the next incarnation knows how far this one was in what it received.
    pub fn keeps_place(&self) -> bool {
        !self.slot.is_none() || self.flow.counts().messages_in == 0
    }

    /// Its frames go by the way at that place from now on, on which a question was answered in `shortest` nanoseconds, once; 0: none
    /// was. Of one whose messages name several nobody knows which one an answer is of, nor is any of their links the one that it
    /// could fill.
    pub fn goes_by(&mut self, now: u64, place: usize, shortest: u64, link: Option<Link>) {
        self.flow.set_link(link.filter(|_| !self.is_mixed));
        let is_other = self.way.replace(place).is_some_and(|former| former != place);
        if is_other && !self.is_mixed {
            self.flow.way_changed(now, shortest);
        }
    }

    /// The longest part that goes to that node from now on.
    pub fn set_part_max(&mut self, now: u64, part_max: u16) {
        self.flow.set_part_max(now, part_max);
        self.part_max = part_max.min(self.part_most);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.set_part_max(self.part_max);
        }
    }

    /// Bytes of a part as long as may be, if the last frame acknowledged one.
    #[inline]
    pub fn full_arrived(&self) -> Option<u16> {
        // By which of several ways it went, nobody knows.
        (self.full_arrived && !self.is_mixed).then_some(self.part_max)
    }

    /// Whether some message named a route of its own.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// The route of the message that is sent next, which that names, 0: none; nothing: no message is sent next.
    pub fn next_route(&self) -> Option<u64> {
        if self.out.is_routed() {
            return self.flow.next_message().map(|message| self.out.route_of(message));
        }
        let raw = self.datagrams.as_ref().and_then(|datagrams| datagrams.next());
        Some(raw.map_or(0, Message::route))
    }

    /// It is forgotten.
    pub fn end(&mut self, budget: &mut Budget, most: usize, places: &mut Places) {
        self.incoming.clear(budget, most);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.end(budget, most);
        }
        places.end(self.slot);
    }

    /// When something was last sent, acknowledged or taken: a peer that only asks uses nothing.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How the flow is.
    pub fn state(&self) -> State {
        self.flow.state()
    }

    /// What it has counted.
    pub fn counts(&self) -> &Counts {
        self.flow.counts()
    }

    /// Messages of the program here that are not acknowledged, or have not left where nobody does that.
    pub fn waiting(&self) -> usize {
        self.out.waiting() + self.datagrams.as_ref().map_or(0, |datagrams| datagrams.waiting())
    }

    /// How often an incarnation ended.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Length of the longest frame.
    pub fn frame_max(&self) -> usize {
        self.flow.frame_max()
    }
}

/// What flows with one node have in common, and what this one begins with.
#[derive(Clone, Copy, Debug)]
pub struct Like {
    /// Whose endpoint this one is.
    pub user: u32,
    /// The longest part that all routes to that node carry, bytes.
    pub part_max: u16,
    /// The checksum of frames, where no guard vouches for them.
    pub checksum: Option<dp_flow::Checksum>,
    /// A random number.
    pub incarnation: u32,
    /// The shortest time in which a question was answered by the way that it uses, nanoseconds; 0: none was.
    pub shortest: u64,
    /// How far the receiver of an earlier process was, and where that is kept.
    pub resume: Option<Place>,
    /// As above.
    pub slot: Slot,
}
