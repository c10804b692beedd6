//! What the service holds for others: delivered, as far as there is room, or kept until somebody says that there is.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use nix::sys::epoll::EpollFlags;

use super::super::endpoint::UserEndpoint;
use super::super::link::{Body, Destination, Link, Queued};
use super::super::packet::{plain_limit, Delivery};
use super::{event, Kind, Service};
use crate::addr::Addr;
use crate::edge::beside::Beside;
use crate::edge::out_of_line;
use crate::edge::parts::Parts;

impl Service {
    /// Delivers a link's backlog, as far as there is room.
    pub fn flush(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let (inner, was_stalled, closed) = (local.inner.clone(), local.stalled, local.closed);
        let mut tx = inner.guest_tx();
        let Some(ix) = tx.find(to) else { return };
        if tx.links[ix].rests {
            let released = tx.links[ix].is_released();
            drop(tx);
            return if released { self.lost(serial, to) } else { self.flush_later(serial, to) };
        }
        let mut stopped = None;
        while let Some(load) = tx.unpark(ix) {
            let (delivery, load) = deliver(&mut tx.links[ix], &inner, load);
            if delivery == Delivery::Done {
                tx.unqueued(ix);
                continue;
            }
            tx.park_again(ix, load);
            if delivery == Delivery::Full {
                tx.links[ix].count_slow();
                if tx.links[ix].want_room() {
                    continue; // some came meanwhile
                }
            }
            stopped = Some(delivery);
            break;
        }
        let link = &mut tx.links[ix];
        if stopped != Some(Delivery::Gone) {
            link.try_direct();
        }
        let (back, woken, outgrown) = (link.back(), link.woken(), link.asks_for_longer());
        drop(tx);
        if outgrown {
            self.outgrown(serial, to);
        }
        woken.into_iter().for_each(Waker::wake);
        match (stopped, back) {
            (Some(Delivery::Gone), _) => self.lost(serial, to),
            (Some(Delivery::Busy), Some(back)) => self.wait_for_room(serial, to, back),
            (Some(Delivery::Short), _) => self.flush_later(serial, to),
            // A note will come: of room, of a pool, of the destination.
            _ => {}
        }
        if closed {
            self.linger(serial);
        } else if was_stalled {
            self.todo.push(serial);
        }
    }

    fn flush_later(&mut self, serial: u32, to: Addr) {
        self.absent.insert((serial, to));
        self.retry_soon();
    }

    /// A sender found a destination's descriptor full, and waits where the pair does not tell it of room there.
    pub fn busy(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let back = {
            let tx = local.inner.guest_tx();
            tx.find(to).and_then(|ix| tx.links[ix].back())
        };
        if let Some(back) = back {
            self.wait_for_room(serial, to, back);
        }
    }

    fn wait_for_room(&mut self, serial: u32, to: Addr, back: Arc<OwnedFd>) {
        if self.rooms.values().any(|(s, t, _)| (*s, *t) == (serial, to)) {
            return;
        }
        let number = self.number();
        let flags = EpollFlags::EPOLLOUT | EpollFlags::EPOLLONESHOT;
        if self.epoll.add(&*back, event(flags, Kind::Room, number)).is_ok() {
            self.rooms.insert(number, (serial, to, back));
        } else {
            self.flush_later(serial, to);
        }
    }

    pub fn room_event(&mut self, number: u32) {
        if let Some((serial, to, back)) = self.rooms.remove(&number) {
            let _ = self.epoll.delete(&*back);
            self.flush(serial, to);
        }
    }
}

/// One message of a backlog; it comes back if it was not delivered.
fn deliver(link: &mut Link, inner: &UserEndpoint, load: Queued) -> (Delivery, Queued) {
    let Queued { body, beside } = load;
    let mut made = None;
    let Ok(tag) = inner.tag_for(link.tagged(beside), &mut made) else {
        return (Delivery::Short, Queued { body, beside });
    };
    let (delivery, body) = deliver_tagged(link, tag, body, beside);
    (delivery, Queued { body, beside })
}

fn deliver_tagged(link: &mut Link, tag: &OwnedFd, body: Body, beside: Beside) -> (Delivery, Body) {
    let to_link = |link: &mut Link, bytes: &[u8]| {
        let pieces = [IoSlice::new(bytes)];
        link.deliver(&Parts::new(&pieces).with_beside(beside), tag, &mut || ())
    };
    let body = match body {
        Body::Bytes(bytes) => match to_link(link, &bytes) {
            Delivery::TooLong(_) if matches!(link.destination, Destination::Pool { .. }) => {
                match out_of_line::make(&Parts::new(&[IoSlice::new(&bytes)])) {
                    Ok(memory) => Body::OutOfLine(memory),
                    Err(_) => return (Delivery::Short, Body::Bytes(bytes)),
                }
            }
            other => return (other, Body::Bytes(bytes)),
        },
        other => other,
    };
    let Body::OutOfLine(memory) = &body else { return (Delivery::Short, body) };
    if let Destination::Plain(back) = &link.destination {
        // It may have lain there only because of its envelope, or since before the receiver was known.
        return match out_of_line::check(memory) {
            Ok(len) if len > plain_limit(back) => (Delivery::NoWay, body),
            Ok(_) => match out_of_line::OutOfLine::open(memory) {
                Ok(bytes) => (to_link(link, &bytes), body),
                Err(_) => (Delivery::Short, body),
            },
            Err(_) => (Delivery::Done, body), // checked when it came
        };
    }
    (link.deliver_out_of_line(memory, beside, tag, &mut || ()), body)
}
