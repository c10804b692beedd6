//! The sender's side of a link: how each sleeper at its other end is woken.

use core::mem::size_of;
use core::sync::atomic::{AtomicU64, Ordering};

use dp_channel::family::Conn;
use dp_edge::sys::{process, raw};

use super::{used, Link, Told};
use crate::rights::{self, Passed};
use crate::{intro, own};

/// Messages taken in one look.
const FEW: usize = 4;

/// By what a sleeper is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// An eventfd, of a process that may stop us anyway.
    Event(i32),
    /// One end of a socket pair.
    Socket(i32),
    /// A bell: what it gave was refused.
    Bell,
}

/// In a packed entry: the descriptor is a socket's.
const SOCKET: u32 = 1 << 31;

impl Means {
    /// `number << 32 | kind << 31 | descriptor + 1`
    fn pack(self, number: u32) -> u64 {
        let low = match self {
            Means::Event(fd) => fd as u32 + 1,
            Means::Socket(fd) => (fd as u32 + 1) | SOCKET,
            Means::Bell => 0,
        };
        u64::from(number) << 32 | u64::from(low)
    }

    fn unpack(entry: u64) -> Means {
        match entry as u32 {
            0 => Means::Bell,
            low if low & SOCKET != 0 => Means::Socket((low & !SOCKET) as i32 - 1),
            low => Means::Event(low as i32 - 1),
        }
    }

    fn fd(self) -> Option<i32> {
        match self {
            Means::Event(fd) | Means::Socket(fd) => Some(fd),
            Means::Bell => None,
        }
    }
}

/// Wakes the sleeper with this number, of the process at the other end of `c`. False: a bell has to.
pub fn wake(c: &Conn, number: u32) -> bool {
    let woken = used(c, |l| {
        let at = l.of(number).or_else(|| {
            l.listen();
            l.of(number)
        });
        at.is_some_and(|at| l.wake(at, number))
    });
    woken == Some(true)
}

impl Link {
    fn of(&self, number: u32) -> Option<&AtomicU64> {
        self.theirs.iter().find(|t| (t.load(Ordering::Acquire) >> 32) as u32 == number)
    }

    fn wake(&self, at: &AtomicU64, number: u32) -> bool {
        let entry = at.load(Ordering::Acquire);
        match Means::unpack(entry) {
            _ if (entry >> 32) as u32 != number => false,
            Means::Event(fd) => own::is(fd) && raw::signal_event(fd),
            Means::Socket(fd) if own::is(fd) => {
                // SAFETY: one byte.
                match unsafe { raw::send(fd, &b'!', 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) } {
                    Ok(_) => true,
                    // Full: somebody else has filled it, or the sleeper does not look at it.
                    Err(libc::EAGAIN) => false,
                    // The sleeper has closed it, and relies on bells.
                    Err(_) => {
                        self.replace(at, entry, Means::Bell.pack(number));
                        false
                    }
                }
            }
            Means::Socket(_) | Means::Bell => false,
        }
    }

    /// Takes what the other side told. The caller is counted in `users`.
    #[cold]
    fn listen(&self) {
        if self.reading.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        for _ in 0..FEW {
            let Some((number, means)) = self.fd().and_then(receive) else { break };
            self.keep(number, means);
        }
        self.reading.store(0, Ordering::Release);
    }

    fn keep(&self, number: u32, means: Means) {
        let is_free = |t: &&AtomicU64| t.load(Ordering::Relaxed) == 0;
        // Numbers count up, so the lowest is the oldest.
        let oldest = || self.theirs.iter().min_by_key(|t| t.load(Ordering::Relaxed) >> 32);
        if let Some(at) = self.theirs.iter().find(is_free).or_else(oldest) {
            self.replace(at, at.load(Ordering::Relaxed), means.pack(number));
        }
    }

    /// Puts `new` in the place of `old`, and closes what that had. The caller is counted in `users`.
    fn replace(&self, at: &AtomicU64, old: u64, new: u64) {
        if at.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // Another thread was faster; it can only have been about the same socket.
            return;
        }
        if let Some(before) = Means::unpack(old).fd() {
            self.close_soon(before);
        }
    }

    pub(super) fn forget_theirs(&self) {
        for entry in self.theirs.iter().map(|t| t.swap(0, Ordering::Relaxed)) {
            if let Some(fd) = Means::unpack(entry).fd() {
                own::close(fd);
            }
        }
    }
}

fn refuse(fd: i32) {
    if fd >= 0 {
        raw::close(fd);
    }
}

/// One message of the link `fd`: a sleeper's number, and how it is woken.
fn receive(fd: i32) -> Option<(u32, Means)> {
    let mut told = Told { number: 0, _pad: 0 };
    let (mut given, mut sender) = (-1, None);
    let keep = |passed| match passed {
        // The last one is kept.
        Passed::Descriptor(fd) => refuse(core::mem::replace(&mut given, fd)),
        Passed::Sender(cred) => sender = Some(cred),
    };
    // SAFETY: numbers.
    let got = unsafe { rights::receive(fd, &mut told, keep) };
    if got != Ok(size_of::<Told>()) {
        refuse(given);
        return None;
    }
    let means = sender.map_or(Means::Bell, |sender| judge(given, &sender));
    if means == Means::Bell {
        refuse(given);
        return Some((told.number, Means::Bell));
    }
    let kept = own::keep(given).map_or(Means::Bell, |fd| match means {
        Means::Socket(_) => Means::Socket(fd),
        _ => Means::Event(fd),
    });
    Some((told.number, kept))
}

/// What a descriptor that `sender` gave is good for.
fn judge(given: i32, sender: &libc::ucred) -> Means {
    if given < 0 {
        return Means::Bell;
    }
    if raw::is_eventfd(given) {
        let believed = process::may_signal_us(sender.pid as u32, sender.uid);
        return if believed { Means::Event(given) } else { Means::Bell };
    }
    let option = |name| raw::getsockopt_int(given, libc::SOL_SOCKET, name);
    let is_local =
        option(libc::SO_DOMAIN) == Ok(libc::AF_UNIX) && option(libc::SO_TYPE) == Ok(libc::SOCK_STREAM);
    // A byte of ours, with our name on it, goes to nobody but the sender's user.
    if is_local && intro::peer_credentials(given).is_some_and(|made_by| made_by.uid == sender.uid) {
        Means::Socket(given)
    } else {
        Means::Bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_entry_tells_what_it_was_packed_from() {
        let all =
            [Means::Event(0), Means::Event(1023), Means::Socket(0), Means::Socket(1 << 20), Means::Bell];
        for means in all {
            let entry = means.pack(0xdead_beef);
            assert_eq!((Means::unpack(entry), (entry >> 32) as u32), (means, 0xdead_beef));
        }
    }

    /// One that could block us, or that would show our name to somebody else, is good for nothing.
    #[test]
    fn a_descriptor_is_taken_only_if_it_can_do_no_harm() {
        let (uid, pid) = (raw::getuid(), raw::getpid() as i32);
        let (us, stranger) = (libc::ucred { pid, uid, gid: 0 }, libc::ucred { pid, uid: uid + 1, gid: 0 });
        let event = raw::eventfd().expect("an eventfd");
        let [near, far] = raw::socketpair(libc::SOCK_STREAM).expect("a pair");
        let [datagram, other] = raw::socketpair(libc::SOCK_DGRAM).expect("a pair");
        let [pipe, end] = {
            let mut fds = [0; 2];
            // SAFETY: two numbers.
            assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
            fds
        };
        for (fd, sender, means) in [
            (event, us, Means::Event(event)),
            (event, stranger, Means::Bell),
            (event, libc::ucred { pid: 0, ..us }, Means::Bell),
            (near, us, Means::Socket(near)),
            // Of another namespace, of which the kernel tells no number.
            (near, libc::ucred { pid: 0, ..us }, Means::Socket(near)),
            (near, stranger, Means::Bell),
            (datagram, us, Means::Bell),
            (pipe, us, Means::Bell),
            (-1, us, Means::Bell),
        ] {
            assert_eq!(judge(fd, &sender), means, "{fd} of user {}", sender.uid);
        }
        [event, near, far, datagram, other, pipe, end].into_iter().for_each(raw::close);
    }

    /// What the sleeper, or anybody who has its end, does to the socket costs a bell, and keeps nobody.
    #[test]
    fn a_socket_that_is_full_or_closed_wakes_nobody_and_blocks_nobody() {
        testing::start();
        let l = Link::free();
        let woken = |number| l.used(1, |l| l.of(number).is_some_and(|at| l.wake(at, number)));
        l.serial.store(1, Ordering::Relaxed);
        let [near, far] = raw::socketpair(libc::SOCK_STREAM).expect("a pair");
        let far = own::keep(far).expect("room");
        l.used(1, |l| l.keep(7, Means::Socket(far)));
        assert_eq!((woken(7), woken(8)), (Some(true), Some(false)));
        let mut bytes = [0u8; 4096];
        // SAFETY: the buffer is ours.
        let mut taken = || unsafe { raw::recv(near, bytes.as_mut_ptr(), bytes.len(), libc::MSG_DONTWAIT) };
        assert_eq!(taken(), Ok(1));
        let filled = (0..100_000).find(|_| woken(7) == Some(false)).expect("it takes no more");
        assert!(filled >= 64, "a sleeper that is drained after 32 wake-ups loses some: {filled}");
        assert!(taken().is_ok_and(|n| n > 0) && woken(7) == Some(true), "drained, it wakes again");
        raw::close(near);
        assert_eq!((woken(7), own::is(far)), (Some(false), false), "closed, it is given up");
        assert_eq!(l.of(7).map(|at| Means::unpack(at.load(Ordering::Relaxed))), Some(Means::Bell));
    }
}
