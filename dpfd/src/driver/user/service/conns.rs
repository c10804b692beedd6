//! Connections to the services of other processes: notes out, notes in.
//!
//! The process at the other end is not believed to be honest, nor to be awake. So notes are heard a few at a time; whoever
//! does not take the answers to his notes is not heard meanwhile; and a process has so many connections and links
//! and no more. Only answers hold back their askers, never questions: else two services could wait for each other.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;

use super::super::door::{send_note, Sent};
use super::super::note::{Note, LEN};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::{event, Kind, Service};
use dp_edge::sys::{process, unix};

/// Notes heard from one connection before others have their turn.
const TURN: usize = 64;
/// Notes that wait for a process that asks for nothing and takes nothing.
const MOST_WAITING: usize = 1 << 17;
/// Connections that one process may have here: one for its links, and one for each of its threads that just asks.
const MOST_OF_ONE: usize = 64;

/// A connection to another process's service.
#[derive(Debug)]
pub struct Conn {
    pub fd: Arc<OwnedFd>,
    pub role: Role,
    /// Notes that found no room.
    backlog: VecDeque<(Note, Vec<OwnedFd>)>,
    /// Not heard until there are descriptors for what it sends.
    deaf: bool,
}

/// The sender.
#[derive(Debug)]
pub enum Role {
    Out(Outgoing),
    In(Incoming),
}

impl Conn {
    pub fn new(fd: OwnedFd, role: Role) -> Conn {
        Conn { fd: Arc::new(fd), role, backlog: VecDeque::new(), deaf: false }
    }

    /// What to wait for. An answer that waits for room keeps further questions waiting.
    fn interest(&self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLOUT, !self.backlog.is_empty());
        let held_back = matches!(self.role, Role::In(_)) && !self.backlog.is_empty();
        flags.set(EpollFlags::EPOLLIN, !held_back && !self.deaf);
        flags
    }

    pub fn send(&self, note: Note, fds: &[BorrowedFd<'_>]) -> Sent {
        if let (Note::Room { link }, Role::In(incoming)) = (note, &self.role) {
            incoming.room_is_told(link);
        }
        send_note(&self.fd, note, fds)
    }

    /// As far as there is room; what stopped it.
    fn send_backlog(&mut self) -> Sent {
        while let Some((note, fds)) = self.backlog.pop_front() {
            let borrowed: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
            let sent = self.send(note, &borrowed);
            if sent != Sent::Done {
                self.backlog.push_front((note, fds));
                return sent;
            }
        }
        Sent::Done
    }
}

impl Service {
    pub fn accept(&mut self) {
        loop {
            match unix::accept(self.process.shared.member.door.as_fd()) {
                Ok(fd) => self.welcome(fd),
                Err(libc::ECONNABORTED | libc::EINTR) => {}
                Err(libc::EAGAIN) => return,
                // No descriptors or memory: the door would be reported for ever, so it is left alone for a while.
                Err(_) => return self.watch_door(false),
            }
        }
    }

    pub fn watch_door(&mut self, open: bool) {
        self.door_shut = !open;
        let flags = if open { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
        let _ = self.epoll.modify(&self.process.shared.member.door, &mut event(flags, Kind::Door, 0));
        if !open {
            self.retry_soon();
        }
    }

    fn welcome(&mut self, fd: OwnedFd) {
        let Some((pid, uid)) = unix::peer(fd.as_fd()) else { return };
        // Processes of other pid namespaces have no number here.
        if pid != 0 && self.of_pid.get(&pid).is_some_and(|n| *n >= MOST_OF_ONE) {
            return;
        }
        if self.conns.len() >= process::descriptor_limit() / 4 * 3 && !self.end_an_idle_one() {
            return;
        }
        let me = nix::unistd::geteuid().as_raw();
        // A process that holds the other end of a pair could read what its program writes: the same user's only.
        let allowed = uid == me || uid == 0;
        if self.add_conn(fd, Role::In(Incoming::new(pid, allowed))).is_some() {
            *self.of_pid.entry(pid).or_default() += 1;
        }
    }

    /// Somebody who holds connections and does nothing with them must not keep others out.
    fn end_an_idle_one(&mut self) -> bool {
        let idle = |c: &Conn| matches!(&c.role, Role::In(incoming) if incoming.is_idle());
        let oldest = self.conns.iter().filter(|(_, c)| idle(c)).map(|(number, _)| *number).min();
        oldest.inspect(|number| self.conn_ended(*number)).is_some()
    }

    pub fn add_conn(&mut self, fd: OwnedFd, role: Role) -> Option<u32> {
        let number = self.number();
        self.epoll.add(&fd, event(EpollFlags::EPOLLIN, Kind::Conn, number)).ok()?;
        self.conns.insert(number, Conn::new(fd, role));
        Some(number)
    }

    /// Sends a note, or keeps it until there is room. False if it could be neither sent nor kept: no descriptors.
    pub fn tell(&mut self, number: u32, note: Note, fds: &[BorrowedFd<'_>]) -> bool {
        let Some(conn) = self.conns.get_mut(&number) else { return true };
        let sent = if conn.backlog.is_empty() { conn.send(note, fds) } else { Sent::Full };
        if sent == Sent::Done {
            return true;
        }
        let Ok(fds) = fds.iter().map(|fd| unix::dup(*fd)).collect() else { return false };
        conn.backlog.push_back((note, fds));
        if conn.backlog.len() > MOST_WAITING {
            self.conn_ended(number);
        } else {
            self.watch_conn(number, sent == Sent::Short);
        }
        true
    }

    /// Tells epoll what to wait for. Short: room on the socket is not what is missing.
    fn watch_conn(&mut self, number: u32, short: bool) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let mut flags = conn.interest();
        if short {
            flags.remove(EpollFlags::EPOLLOUT);
        }
        let wait = short || conn.deaf;
        let _ = self.epoll.modify(&conn.fd, &mut event(flags, Kind::Conn, number));
        if wait {
            self.short.insert(number);
            self.retry_soon();
        }
    }

    /// What could not be sent or heard for want of something.
    pub fn conns_again(&mut self) {
        for number in core::mem::take(&mut self.short) {
            if let Some(conn) = self.conns.get_mut(&number) {
                conn.deaf = false;
                self.tell_backlog(number);
            }
        }
    }

    fn tell_backlog(&mut self, number: u32) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let sent = conn.send_backlog();
        self.watch_conn(number, sent == Sent::Short);
    }

    pub fn conn_event(&mut self, number: u32, flags: EpollFlags) {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.tell_backlog(number);
        }
        let over = flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR);
        let mut buf = vec![0; LEN + 1];
        for _ in 0..TURN {
            let Some(conn) = self.conns.get(&number) else { return };
            // One that is over is heard to its end, or it would be reported for ever.
            if !over && !conn.interest().contains(EpollFlags::EPOLLIN) {
                return;
            }
            let heard = match conn.role {
                Role::Out(_) => unix::take(conn.fd.as_raw_fd(), &mut buf).map(|got| (got.len, got.fds)),
                // No question has descriptors beside it: the kernel lets go of them.
                Role::In(_) => {
                    unix::recv_bytes(conn.fd.as_raw_fd(), &mut buf).map(|len| (len, [const { None }; 2]))
                }
            };
            match heard {
                Ok((len, fds)) if len > 0 => {
                    let Some(note) = Note::decode(&buf[..len.min(buf.len())]) else {
                        return self.conn_ended(number); // another version, or no service at all
                    };
                    if !self.hear_note(number, note, fds) {
                        return;
                    }
                }
                Err(libc::EAGAIN | libc::EINTR) => return,
                Err(libc::EMFILE | libc::ENOMEM) if !over => return self.go_deaf(number),
                _ => return self.conn_ended(number),
            }
        }
    }

    /// Whether to hear the next one at once.
    fn hear_note(&mut self, number: u32, note: Note, fds: [Option<OwnedFd>; 2]) -> bool {
        let Some(conn) = self.conns.get(&number) else { return false };
        if let Role::Out(_) = conn.role {
            self.hear_back(number, note, fds);
            return true;
        }
        self.hear(number, note);
        // A list is work: one in a turn.
        note != Note::List
    }

    fn go_deaf(&mut self, number: u32) {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.deaf = true;
        }
        self.watch_conn(number, false);
    }

    pub fn conn_ended(&mut self, number: u32) {
        let Some(conn) = self.conns.remove(&number) else { return };
        self.awaiting.retain(|a| a.conn != number);
        let _ = self.epoll.delete(&conn.fd);
        match conn.role {
            Role::Out(out) => self.out_ended(number, out),
            Role::In(incoming) => {
                if let Some(n) = self.of_pid.get_mut(&incoming.pid) {
                    *n -= 1;
                    if *n == 0 {
                        self.of_pid.remove(&incoming.pid);
                    }
                }
                self.in_ended(incoming);
            }
        }
    }
}
