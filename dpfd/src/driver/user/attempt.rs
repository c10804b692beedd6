//! One attempt to send a message where the light-weight call did not do: over the edge after all, onto the receiver's
//! descriptor, or into the endpoint's own pair ([`super::link`]).

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::endpoint::{UserEndpoint, MAX_MESSAGE};
use super::link::{Destination, Link, Path};
use super::load::Load;
use super::note::{Envelope, Inside, ENVELOPE};
use super::packet::{plain_limit, Delivery};
use super::shared::Command;
use super::tx::Tx;
use super::wakers::Until;
use crate::error::{Error, NoImmediate, Result};
use dp_edge::sys::{raw, unix};

/// Calls in which an endpoint proves that nobody writes plainly on it, before it stops asking.
const ALONE: u32 = 64;

/// Behind a message out of line, in the endpoint's own pair: so that a dozen of them fill it, and not hundreds,
/// each with a descriptor in flight.
static PADDING: [u8; 16 << 10] = [0; 16 << 10];

impl UserEndpoint {
    /// One attempt, which waits for nothing but, where the caller `waits`, for a moment for room in the edge.
    /// None: the message is sent.
    #[cold]
    pub(super) fn attempt(
        &self,
        tx: &mut Tx,
        ix: usize,
        fd: i32,
        load: &mut Load<'_>,
        waits: impl Fn() -> bool,
    ) -> Result<Option<Until>> {
        let pair = || plain_limit(&self.back) - ENVELOPE;
        loop {
            // A plain write that waits in the pair was sent before.
            let behind = !tx.alone && (tx.untargeted.is_some() || pair_holds(fd)?);
            if !behind && !self.mixed.load(Ordering::Relaxed) {
                tx.calls = tx.calls.saturating_add(1);
                tx.alone = tx.calls >= ALONE;
            }
            let Some(mut link) = tx.links.get_mut(ix) else { return Err(Error::Closed) };
            if load.msg.len() > MAX_MESSAGE {
                return Err(Error::TooLong { len: load.msg.len(), to: link.to, limit: MAX_MESSAGE });
            }
            if let Some(why) = link.refused {
                return Err(self.denied(why, link.to));
            }
            if load.msg.immediate().is_some() && link.refuses_immediates() {
                return Err(Error::NoImmediate(link.to, NoImmediate::OldReceiver));
            }
            let mut direct = None;
            if !behind && link.try_direct() {
                // The caller steps the gateway afterwards.
                if link.inside && load.near().is_some_and(|msg| link.deliver_soon(&msg)) {
                    return Ok(None);
                }
                let beside = link.tagged(load.msg.beside());
                let mut made = None;
                let delivery = load.deliver(link, self.tag_for(beside, &mut made)?, &mut || ())?;
                direct = Some(delivery);
                if link.asks_for_longer() {
                    self.process.command(Command::Outgrown(self.entry.serial, link.to));
                }
                match delivery {
                    Delivery::Done => return Ok(None),
                    Delivery::Gone => {
                        link.unlink();
                        self.process.command(Command::Lost(self.entry.serial, link.to));
                    }
                    Delivery::TooLong(limit) => load.too_long(link, limit)?,
                    Delivery::Full | Delivery::Busy | Delivery::Short | Delivery::NoWay => {
                        self.full.fetch_add(1, Ordering::Relaxed);
                        let full = delivery == Delivery::Full;
                        if full && link.inside && waits() {
                            // Room comes by steps, which the caller makes.
                            link.count_short();
                            return Ok(Some(Until::Later));
                        }
                        if full && !waits() {
                            link.count_short();
                        } else if full {
                            if link.look_for_room(load.room_wait()) {
                                link.count_short();
                                continue;
                            }
                            link.count_slow();
                            if load.rests(|| true, pair) {
                                return Ok(Some(Until::Later));
                            }
                        }
                        link.path = Path::Queued;
                    }
                }
            }
            // What is in front of it in the pair may never be taken: of those whose destinations are not there the service keeps
            // a few only. Who waits does so for room where it goes, or for those of its own that are in front of them.
            let may_wait = !behind && matches!(direct, None | Some(Delivery::Full | Delivery::Busy));
            if may_wait && !matches!(link.destination, Destination::Unknown) {
                if tx.is_jammed() && waits() {
                    return Ok(Some(Until::Room));
                }
                link = &mut tx.links[ix];
            }
            // While others are in front of it the direct way is not to be had, and would never be if each went there.
            let has_pool = matches!(link.destination, Destination::Pool { .. });
            if direct.is_none() && has_pool && load.rests(&waits, pair) {
                return Ok(Some(Until::Later));
            }
            // Of a future: it is told when there is room, or nobody is in front of it any more.
            let in_front = direct.is_none() && !behind;
            if (in_front || direct == Some(Delivery::Full)) && link.has_edge() && load.waits_for_a_turn(pair)
            {
                if !in_front && link.want_room() {
                    continue;
                }
                return Ok(Some(Until::Direct));
            }
            // Before the service has the message: it may leave the pair alone, for what it holds for others.
            if link.is_to_be_found() {
                self.process.command(Command::Attach(self.entry.serial, link.to));
            }
            let Some(stuck) = self.enqueue(link, fd, load)? else {
                tx.queued(ix);
                if tx.is_held_up(ix) {
                    self.process.command(Command::Resume(self.entry.serial));
                }
                return Ok(None);
            };
            let link = &mut tx.links[ix];
            match (stuck, direct) {
                // A direct link would not help: what is in the pair goes first.
                (Until::Room, _) if behind => return Ok(Some(Until::Drained)),
                // The pair is full, perhaps of messages for others: whoever knows of room on the direct way tells.
                (Until::Room, Some(Delivery::Full)) if link.want_room() => {}
                (Until::Room, Some(Delivery::Short)) => return Ok(Some(Until::Later)),
                (Until::Room, Some(Delivery::Busy)) => {
                    self.process.command(Command::Busy(self.entry.serial, link.to));
                    return Ok(Some(Until::Room));
                }
                _ => return Ok(Some(stuck)),
            }
        }
    }

    /// Puts a message into the endpoint's own pair, for the service to take on. None: it is there.
    fn enqueue(&self, link: &mut Link, fd: i32, load: &mut Load<'_>) -> Result<Option<Until>> {
        let beside = load.msg.beside();
        let envelope = |what| Envelope { key: self.key, to: link.to, what, beside }.encode();
        let (message, len) = envelope(Inside::Message);
        let sent = if load.msg.len() <= plain_limit(&self.back) - len {
            load.msg.behind(&message[..len], |packet| unix::send(fd, packet, &[], libc::MSG_DONTWAIT))
        } else {
            // A receiver that reads plainly takes some that are too long for this pair only because of the envelope.
            if matches!(link.destination, Destination::Plain(_)) && load.msg.len() > plain_limit(&self.back) {
                load.too_long(link, plain_limit(&self.back))?;
                return Ok(Some(Until::Later));
            }
            let (envelope, len) = envelope(Inside::OutOfLine);
            let parts = [IoSlice::new(&envelope[..len]), IoSlice::new(&PADDING)];
            unix::send(fd, &parts, &[load.memory()?.as_fd()], libc::MSG_DONTWAIT)
        };
        match sent {
            Ok(_) => Ok(None),
            Err(libc::EAGAIN) => Ok(Some(Until::Room)),
            Err(libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS) => Ok(Some(Until::Later)),
            Err(libc::EINTR) => Err(Error::Interrupted),
            Err(libc::EPIPE | libc::ECONNRESET) => Err(Error::Closed),
            Err(libc::EBADF | libc::ENOTSOCK) => Err(Error::NotAnEndpoint(fd)),
            Err(e) => Err(Error::System { call: "sendmsg", errno: e }),
        }
    }
}

/// Whether the pair holds something that the service has not taken.
pub(super) fn pair_holds(fd: i32) -> Result<bool> {
    let n = raw::ioctl_int(fd, libc::TIOCOUTQ).map_err(|_| Error::NotAnEndpoint(fd))?;
    Ok(n > 0)
}
