//! A flow: both directions between two endpoints, put together from the parts beside this file. What it sends, and when,
//! is in `flow/transmit.rs`.

use dp_abi::frame2::{Header, FLAG_ASK};
use dp_abi::MESSAGE_MAX;

use crate::ack::Ack;
use crate::config::{Config, Invalid, Link, Place};
use crate::congestion::Congestion;
use crate::count::{add, Counts, Refused};
use crate::frame::{self, Body, Hello, Piece};
use crate::greeting::Greeting;
use crate::outbox::{Outbox, Outgoing};
use crate::pace::Pace;
use crate::reassemble::{Arrival, Reassembly, Sink};
use crate::rtt::Rtt;
use crate::window::{Acknowledged, Window};

mod event;
mod transmit;

use event::Events;
pub use event::{Down, Event, NotSent, State};

/// Who has the bytes of the messages that are sent.
pub trait Source {
    /// Copies bytes of `message` from `begin` on into `out`, all of it, and says how many. Fewer: the rest is not there
    /// yet, and the part waits; `poll_transmit` asks again when it is called next. What was there once must stay, the same,
    /// until the message is reported as delivered or lost.
    fn read(&mut self, message: u64, begin: u32, out: &mut [u8]) -> usize;
}

impl<F: FnMut(u64, u32, &mut [u8]) -> usize> Source for F {
    fn read(&mut self, message: u64, begin: u32, out: &mut [u8]) -> usize {
        self(message, begin, out)
    }
}

/// A flow between two endpoints of different nodes: messages in both directions, each once, in order, whole.
///
/// `B` is the memory in which parts wait that came before their turn; it is never longer in use than `W` parts. `W`, a
/// power of two from 4 to 1024, is the most parts on their way, and the most messages that wait to be acknowledged.
///
/// Whoever drives it: calls [`on_frame`](Flow::on_frame) for what the route brings; then, and when
/// [`next_timeout`](Flow::next_timeout) has come, and after [`send`](Flow::send) and [`deliver`](Flow::deliver), calls
/// [`poll_transmit`](Flow::poll_transmit) until it has no frame, and [`poll_event`](Flow::poll_event) until it has no event.
#[derive(Clone, Debug, Hash)]
pub struct Flow<B, const W: usize> {
    config: Config,
    greeting: Greeting,
    outbox: Outbox<W>,
    window: Window<W>,
    reassembly: Reassembly<B, W>,
    ack: Ack,
    rtt: Rtt,
    congestion: Congestion,
    pace: Pace,
    /// Where the last incarnation before this one was in which anything was taken.
    resume: Option<Place>,
    /// The tag of frames to the peer: who is there, and as whom this end speaks with it; 0: it is not known.
    peer: u32,
    /// The longest part that the peer takes, and the longest that the way to it carries.
    peer_part_max: u16,
    way_part_max: u16,
    /// This end began anew by itself, and what it had sent waits for the peer to say how far it was in the incarnation in which
    /// this end's frames had this tag.
    awaits: Option<u32>,
    peer_user: u32,
    /// When the peer was heard last, and how often it was asked since.
    heard: u64,
    asked: u32,
    /// How often it was asked for room in vain.
    stalled: u8,
    /// When to take what flies for lost, or to ask where nothing does.
    repeat_at: Option<u64>,
    keepalive_at: Option<u64>,
    /// A question is to be sent.
    probe: bool,
    /// Nothing but pacing keeps a part back.
    paced: bool,
    events: Events,
    counts: Counts,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const W: usize> Flow<B, W> {
    const FITS: () = assert!(W.is_power_of_two() && 4 <= W && W <= 1024);

    /// A flow at rest. `memory` holds parts of `part_max` bytes; the peer is granted as many as fit, rounded down to a power
    /// of two, `W` at most. Its length must not change; [`Flow::grow`] takes another one.
    pub fn new(config: Config, memory: B) -> Result<Flow<B, W>, Invalid> {
        let () = Self::FITS;
        config.check()?;
        let reassembly = Reassembly::new(memory, config.part_max).ok_or(Invalid::Memory)?;
        Ok(Flow {
            greeting: Greeting::new(config.incarnation),
            outbox: Outbox::new(),
            window: Window::new(config.first_number),
            reassembly,
            ack: Ack::new(config.ack_delay, config.ack_every),
            rtt: Rtt::new(config.timeout, config.shortest),
            congestion: Congestion::new(W as u32),
            pace: Pace::new(config.link.map(|link| link.speed)),
            resume: config.resume,
            peer: 0,
            peer_part_max: config.part_max,
            way_part_max: config.part_max,
            awaits: None,
            peer_user: 0,
            heard: 0,
            asked: 0,
            stalled: 0,
            repeat_at: None,
            keepalive_at: None,
            probe: false,
            paced: false,
            events: Events::default(),
            counts: Counts::default(),
            config,
        })
    }

    /// Accepts a message, and gives it its number: they count from 0. Its bytes need not be there yet.
    pub fn send(&mut self, now: u64, message: Outgoing) -> Result<u64, NotSent> {
        if u64::from(message.total) > MESSAGE_MAX {
            return Err(NotSent::TooLong);
        }
        if self.events.lost.is_some() {
            return Err(NotSent::Lost);
        }
        if self.outbox.is_full() {
            return Err(NotSent::Full);
        }
        self.greeting.want(now);
        Ok(self.outbox.push(message))
    }

    /// A frame came, from anybody. What it brings in order goes into the sink at once. An error: it was dropped, and is
    /// counted.
    pub fn on_frame(&mut self, now: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Refused> {
        let taken = self.take(now, bytes, sink);
        match taken {
            Ok(()) => add(&mut self.counts.frames_in, 1),
            Err(reason) => self.counts.refuse(reason),
        }
        taken
    }

    /// The sink has room again: gives it what it had refused, as far as it takes it.
    pub fn deliver(&mut self, now: u64, sink: &mut impl Sink) {
        match self.reassembly.deliver(sink) {
            Ok(0) => {}
            Ok(_) => self.ack.hurry(now),
            Err(_) => self.end(Down::Broken),
        }
        self.counts.messages_in = self.reassembly.messages();
    }

    /// From now on no longer parts than these are sent, 1 to [`Config::part_max`]: the way to the peer became shorter, or
    /// longer again. Where longer parts are on their way already, the incarnation ends ([`Down::Shortened`]), since a number
    /// stands for the part that it was given to: the peer says how far it was, and what it had not taken is reported as lost,
    /// and did not come.
    pub fn set_part_max(&mut self, now: u64, part_max: u16) {
        self.way_part_max = part_max.clamp(1, self.config.part_max);
        if self.window.longest() > self.way_part_max {
            self.renew(now);
        }
    }

    /// Frames take another way from now on, on which an answer took `shortest` nanoseconds, once; 0: that is not known. How long
    /// answers took on the former one says nothing of it: neither whether something waits in a queue there, nor when to send again.
    pub fn way_changed(&mut self, now: u64, shortest: u64) {
        self.rtt = Rtt::new(self.config.timeout, shortest);
        self.window.time_from(now);
        // It may have been doubled while the former one was silent.
        let latest = now.saturating_add(self.rtt.timeout());
        self.repeat_at = self.repeat_at.map(|at| at.min(latest));
    }

    /// Frames leave by this link from now on, at its speed; nothing: that is learned.
    pub fn set_link(&mut self, link: Option<Link>) {
        if self.config.link != link {
            self.config.link = link;
            self.pace.tell(link.map(|link| link.speed));
        }
    }

    /// What the link carries around each frame, bytes.
    fn around(&self) -> usize {
        self.config.link.map_or(Link::ETHERNET, |link| link.around).into()
    }

    /// This end begins anew by itself: what there is of a message that was not taken as a whole, and what is kept behind it, is void, and the
    /// peer sends it again from the message's first part on. What this end had sent is not lost and comes once, as with
    /// [`Flow::set_part_max`] ([`Down::Shortened`]). Nothing happens where no incarnation has begun.
    pub fn renew(&mut self, now: u64) {
        if self.peer != 0 && self.awaits.is_none() {
            self.resume = self.place();
            self.awaits = Some(self.peer);
            self.greeting.restart();
            self.greeting.want(now);
            // What was kept was not taken, and comes again.
            self.reassembly.restart(0, 0);
            (self.repeat_at, self.keepalive_at) = (None, None);
            (self.probe, self.paced) = (false, false);
            self.ack.said();
        }
    }

    /// Keeps parts in this memory from now on, which holds more of them; the former comes back.
    ///
    /// # Errors
    ///
    /// This one, which is not larger, or cannot be used while something is kept: later, if at all.
    pub fn grow(&mut self, now: u64, memory: B) -> Result<B, B> {
        let former = self.reassembly.grow(memory)?;
        // Who is to agree to a new incarnation first hears of the room with that.
        if self.peer != 0 && self.awaits.is_none() {
            self.ack.hurry(now);
        }
        Ok(former)
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.poll(self.outbox.done())
    }

    /// How far this end is in what it receives: as the peer knew it last. What a sink keeps over a restart of this
    /// process, it keeps together with this, for [`Config::resume`].
    pub fn place(&self) -> Option<Place> {
        // An incarnation of which nothing was taken tells nobody anything, and the peer may wait for word of the former one:
        // it does not send before it has that.
        self.reassembly.place().or(self.resume)
    }

    /// Length of the longest frame that [`poll_transmit`](Flow::poll_transmit) writes.
    pub fn frame_max(&self) -> usize {
        frame::frame_max(self.config.part_max)
    }

    /// What goes without the flow ([`Raw`](crate::Raw)) is to be told from a stranger's: the two ends get to know each other, if
    /// they do not.
    pub fn meet(&mut self, now: u64) {
        self.greeting.want(now);
    }

    /// The tag of frames to the peer; none: it is not known, or does not know this end yet.
    pub fn tag(&self) -> Option<u32> {
        let meets = self.peer != 0 && self.awaits.is_none() && self.greeting.is_confirmed();
        meets.then(|| self.greeting.outgoing())
    }

    /// A frame with this tag came that goes without the flow.
    ///
    /// # Errors
    ///
    /// It is not the peer's, and who sent it is told.
    pub fn admit(&mut self, now: u64, tag: u32) -> Result<(), Refused> {
        if self.awaits.is_some() {
            return Err(Refused::Early);
        }
        let place = self.place();
        if let Some(hello) = self.greeting.frame(now, tag)? {
            self.begin(now, &hello, place);
        }
        self.heard(now);
        Ok(())
    }

    /// How the flow is.
    pub fn state(&self) -> State {
        State {
            open: self.peer != 0 && self.awaits.is_none(),
            round_trip: self.rtt.smoothed(),
            timeout: self.rtt.timeout(),
            flying: self.window.flying(),
            lost: self.window.lost(),
            window: self.congestion.window(),
            room: self.window.room(),
            peer_user: self.peer_user,
            tag: self.reassembly.tag(),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn take(&mut self, now: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Refused> {
        let (header, body) = frame::parse(bytes, self.config.checksum)?;
        if !frame::is_between(&header, self.config.to, self.config.from) {
            return Err(Refused::Address);
        }
        let (piece, more): (Option<Piece<'_>>, &[u8]) = match body {
            Body::Raw(_) => return Err(Refused::Kind),
            Body::Hello(hello) => {
                let place = self.place();
                let begins = self.greeting.hello(now, &hello);
                // It is there, also where it is to hear of this end's new incarnation yet.
                if begins {
                    (self.heard, self.asked) = (now, 0);
                }
                match self.awaits {
                    // Only one that has left the former incarnation says where it is in it for good.
                    Some(former) if self.greeting.is_confirmed() => self.go_on(now, &hello, former),
                    Some(_) => {}
                    None if begins => self.begin(now, &hello, place),
                    None => {}
                }
                return Ok(());
            }
            Body::Part(piece) => (Some(piece), &[]),
            Body::Ack(more) => (None, more),
        };
        if self.awaits.is_some() {
            return Err(Refused::Early);
        }
        let place = self.place();
        if let Some(hello) = self.greeting.frame(now, header.tag)? {
            self.begin(now, &hello, place);
        }
        self.acknowledge(now, &header, more, piece.is_some())?;
        self.heard(now);
        if header.flags & FLAG_ASK != 0 {
            self.ack.hurry(now);
        }
        piece.map_or(Ok(()), |piece| self.arrive(now, header.number, piece, sink))
    }

    /// `along`: a part brings it along.
    fn acknowledge(&mut self, now: u64, header: &Header, more: &[u8], along: bool) -> Result<(), Refused> {
        let said = Acknowledged {
            number: header.acknowledged,
            room: header.room(),
            arrived: header.arrived(),
            more,
        };
        let paced = self.paced && self.pace.is_learned();
        let full = paced || self.window.flying() >= self.congestion.window();
        let rtt = &self.rtt;
        let news = self.window.acknowledge(now, said, |took| rtt.is_plausible(took));
        let news = news.ok_or(Refused::Acknowledged)?;
        if let Some(took) = news.took {
            self.rtt.sample(took);
            if !full {
                self.rtt.may_be_put_off(self.config.ack_delay);
            }
        }
        if news.parts > 0 {
            self.rtt.came(along);
        }
        if news.late {
            self.window.take_back();
            let first = self.congestion.take_back();
            add(&mut self.counts.early_timeouts, u64::from(first));
        }
        add(&mut self.counts.full_parts, u64::from(news.parts > 0 && news.longest >= self.way_part_max));
        if full {
            self.congestion.arrived(news.parts);
        }
        if news.took.is_some() && self.config.share {
            // As the link sees them.
            let frame = frame::frame_max(self.peer_part_max) + self.around();
            let window = u64::from(self.congestion.window()) * frame as u64;
            let twice = self.congestion.is_probing() || !self.rtt.is_queueing();
            self.pace.learn(if twice { 2 * window } else { window }, self.rtt.smoothed());
        }
        self.congestion.follow(self.window.order());
        if let Some((_, order)) = self.window.find_lost() {
            if self.config.share && self.rtt.is_queueing() {
                self.congestion.lost(order, self.window.order());
            }
        }
        if news.parts > 0 || news.moved {
            // What was sent twice may have been answered the first time (Karn): as long as only such is, the time-out may be too
            // short for the way, and stays doubled.
            if news.took.is_some() || news.parts == 0 {
                self.rtt.answered();
            }
            self.stalled = 0;
            self.repeat_at = self.window.is_waiting().then(|| now.saturating_add(self.rtt.timeout()));
        }
        self.acknowledged(news.messages);
        Ok(())
    }

    fn arrive(
        &mut self,
        now: u64,
        number: u32,
        piece: Piece<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), Refused> {
        let in_turn = number == self.reassembly.expected();
        match self.reassembly.arrive(number, piece, sink)? {
            Arrival::Taken { waited: false } => self.ack.count(now),
            Arrival::Taken { waited: true } => self.ack.hurry(now),
            Arrival::Kept => {
                add(&mut self.counts.out_of_order, u64::from(!in_turn));
                self.ack.hurry(now);
            }
            Arrival::Again => {
                add(&mut self.counts.again, 1);
                self.ack.hurry(now);
            }
            Arrival::Broken => self.end(Down::Broken),
        }
        self.counts.messages_in = self.reassembly.messages();
        Ok(())
    }

    fn heard(&mut self, now: u64) {
        (self.heard, self.asked) = (now, 0);
        self.keepalive_at = (self.config.keepalive > 0).then(|| now.saturating_add(self.config.keepalive));
    }

    /// The other end is known, or known to be another one. This end was at `place`.
    fn begin(&mut self, now: u64, hello: &Hello, place: Option<Place>) {
        self.resume = place;
        if self.peer != 0 {
            self.part_with(now, hello, self.peer, Down::Restarted);
        }
        self.join(now, hello);
    }

    /// The other end is in the incarnation that this one had begun by itself.
    fn go_on(&mut self, now: u64, hello: &Hello, former: u32) {
        self.awaits = None;
        self.part_with(now, hello, former, Down::Shortened);
        self.join(now, hello);
    }

    /// The incarnation in which this end's frames had the tag `former` is over; the HELLO may say how far the peer was in it.
    /// A name of the peer alone would not tell that: while it did not know who is there, it said the same one to whoever asked,
    /// so to an end that was killed since, whose parts it may have taken, and to this one.
    fn part_with(&mut self, now: u64, hello: &Hello, former: u32, why: Down) {
        if hello.resume.0 == former {
            self.peer_had_taken(now, hello.resume.1);
        }
        self.lose(why);
    }

    fn join(&mut self, now: u64, hello: &Hello) {
        // Not what the HELLO says beside that, which may be a name for somebody else.
        self.peer = self.greeting.outgoing();
        self.restart(hello.first, hello.room);
        self.peer_part_max = hello.part_max.min(self.config.part_max);
        self.peer_user = hello.user;
        self.events.up = true;
        self.heard(now);
    }

    /// The peer was restarted, but it knows how far it was.
    fn peer_had_taken(&mut self, now: u64, taken: u32) {
        let said = Acknowledged { number: taken, room: 0, arrived: 0, more: &[] };
        if let Some(news) = self.window.acknowledge(now, said, |_| false) {
            self.acknowledged(news.messages);
        }
    }

    /// The incarnation is over, and the peer is not known any more.
    fn end(&mut self, why: Down) {
        self.lose(why);
        self.resume = self.place();
        (self.peer, self.awaits) = (0, None);
        self.greeting.restart();
        self.restart(0, 0);
        self.keepalive_at = None;
    }

    fn restart(&mut self, expected: u32, room: u16) {
        self.window.restart(self.config.first_number, room);
        self.reassembly.restart(expected, self.greeting.incoming());
        self.ack.said();
        (self.repeat_at, self.probe, self.paced) = (None, false, false);
        self.stalled = 0;
    }

    fn lose(&mut self, why: Down) {
        let (from, before) = self.outbox.lose();
        add(&mut self.counts.messages_lost, before - from);
        self.events.ended(why, (from, before));
    }

    fn acknowledged(&mut self, messages: u64) {
        self.outbox.acknowledged(messages);
        add(&mut self.counts.messages_out, messages);
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
