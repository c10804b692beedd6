//! Strangers at the door of a process with endpoints: notes of every kind, too many, with anything beside them.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dp_edge::sys::unix;
use dpfd::driver::user::note::{Note, LEN};
use dpfd::driver::user::registry::Registry;
use dpfd::{Addr, Dpid};
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};

use crate::crowd::{Crowd, How, RECEIVER};
use crate::kit::*;

/// A connection to the service of the process that has an endpoint.
pub struct Stranger {
    pub fd: OwnedFd,
}

/// What a stranger got for asking.
pub struct Attached {
    pub back: OwnedFd,
    /// The inbox and, if there was one left, an edge.
    pub pool: Option<(OwnedFd, Option<OwnedFd>)>,
}

impl Stranger {
    pub fn at(dpid: Dpid) -> Option<Stranger> {
        let registry = Registry::at(folder()).expect("the folder");
        let entry = registry.look_up(dpid).expect("an entry");
        Some(Stranger { fd: unix::connect(&registry.door_path(&entry.process)).ok()? })
    }

    pub fn say(&self, bytes: &[u8]) -> bool {
        unix::send(self.fd.as_raw_fd(), &[IoSlice::new(bytes)], &[], libc::MSG_DONTWAIT).is_ok()
    }

    /// With these beside it, as many as the kernel takes.
    pub fn say_with(&self, bytes: &[u8], fds: &[RawFd]) -> bool {
        let beside = [ControlMessage::ScmRights(fds)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(self.fd.as_raw_fd(), &[IoSlice::new(bytes)], &beside, flags, None).is_ok()
    }

    pub fn hear(&self, wait: Duration) -> Option<(Note, [Option<OwnedFd>; 2])> {
        unix::wait(self.fd.as_raw_fd(), libc::POLLIN, wait.as_millis() as i32).ok()?;
        let mut buf = [0; LEN];
        let got = unix::recv(self.fd.as_raw_fd(), &mut buf, libc::MSG_DONTWAIT).ok()?;
        Some((Note::decode(&buf[..got.len.min(LEN)])?, got.fds))
    }

    /// Attaches as any sender does.
    pub fn attach(&self, link: u32, from: Addr, to: Dpid) -> Attached {
        assert!(self.say(&Note::Attach { link, from, to: Addr::local(to) }.encode()));
        let answer = |wait| loop {
            // Links that were attached before may hear of room and of edges.
            match self.hear(wait)? {
                (note @ (Note::Attached { link: n, .. } | Note::Pool { link: n }), fds) if n == link => {
                    return Some((note, fds))
                }
                (Note::Room { .. } | Note::Pool { .. }, _) => {}
                other => panic!("{other:?}"),
            }
        };
        let (note, [back, _]) = answer(SOON).expect("an answer");
        assert!(matches!(note, Note::Attached { link: n, .. } if n == link));
        let pool =
            answer(Duration::from_millis(500)).map(|(_, [inbox, edge])| (inbox.expect("an inbox"), edge));
        Attached { back: back.expect("a back"), pool }
    }
}

/// A note of any kind, with any numbers in it.
fn any_note(random: &mut Random) -> Vec<u8> {
    let good = Note::Attach { link: 0, from: Addr::local(1), to: Addr::local(1) }.encode();
    let number = |random: &mut Random| match random.below(5) {
        0 => 0,
        1 => u32::from(RECEIVER),
        2 => u32::MAX,
        3 => random.below(8) as u32,
        _ => random.next() as u32,
    };
    let mut note = good.to_vec();
    note[3] = random.below(14) as u8;
    for at in [4, 8, 12] {
        let n = number(random);
        note[at..at + 4].copy_from_slice(&n.to_ne_bytes());
    }
    note
}

/// Descriptors of every wrong kind.
pub fn odd_descriptors() -> Vec<OwnedFd> {
    let (a, b) = unix::pair().expect("a pair");
    let (c, d) = nix::unistd::pipe().expect("a pipe");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let epoll = nix::sys::epoll::Epoll::new(nix::sys::epoll::EpollCreateFlags::empty()).expect("an epoll");
    let files =
        ["/dev/null", "/dev/zero", "/proc/self/maps", "/"].map(|path| File::open(path).expect("a file"));
    let mut all = vec![a, b, c, d, udp.into(), epoll.0];
    all.extend(files.map(OwnedFd::from));
    all.extend([0, 1, 8, 4096, 1 << 40].map(|len| memory(len, 0)));
    all.push(memory(4096, libc::F_SEAL_SHRINK));
    all.push(memory(8, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW));
    all
}

/// Memory of such a length with such seals.
pub fn memory(len: u64, seals: i32) -> OwnedFd {
    use nix::sys::memfd::{memfd_create, MFdFlags};
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(c"stranger", flags).expect("a memfd"));
    file.set_len(len).expect("a length");
    seal(&file, seals);
    file.into()
}

pub fn seal(file: &impl AsRawFd, seals: i32) {
    let seals = nix::fcntl::SealFlag::from_bits_retain(seals);
    // SAFETY: borrowed for this call from an owner that outlives it.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(file.as_raw_fd()) };
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_ADD_SEALS(seals)).expect("seals");
}

/// Says things to the receiver's service, each time over a new connection, until the time is over.
fn attack(name: &str, mut f: impl FnMut(&mut Random, &Stranger)) {
    let _turn = alone();
    let mut random = Random::new();
    println!("{name}: DP_SEED={}", random.seed);
    let mut crowd = Crowd::new(16 << 10);
    crowd.welcome(How::Plain);
    crowd.progress(name);
    crowd.remember();
    crowd.rests(name);
    let end = Instant::now() + attack_time();
    while Instant::now() < end {
        if let Some(stranger) = Stranger::at(RECEIVER) {
            f(&mut random, &stranger);
        }
    }
    crowd.progress(name);
    // What it keeps open costs a few descriptors, and no time.
    crowd.rests_more(30, name);
    drop(f);
    crowd.progress(name);
    crowd.rests(name);
    crowd.end();
}

#[test]
fn notes_that_are_none() {
    attack("garbage", |random, stranger| {
        for _ in 0..random.below(20) {
            let len = random.below(5000) as usize;
            stranger.say(&random.bytes(len));
        }
        let cut = random.below(LEN as u64) as usize;
        stranger.say(&any_note(random)[..cut]);
        stranger.say(&[any_note(random), vec![0]].concat());
    });
}

#[test]
fn notes_of_every_kind_again_and_again() {
    attack("replays", |random, stranger| {
        let notes: Vec<_> = (0..1 + random.below(4)).map(|_| any_note(random)).collect();
        for i in 0..random.below(600) as usize {
            stranger.say(&notes[i % notes.len()]);
        }
        sleep(Duration::from_micros(random.below(2000)));
    });
}

#[test]
fn askers_that_never_take_the_answers() {
    let mut kept = Vec::new();
    attack("silence", move |random, stranger| {
        let from = Addr::local(RECEIVER + 1);
        for link in 0..3000 {
            let attach = Note::Attach { link, from, to: Addr::local(RECEIVER) };
            let ask = Note::Ask { dpid: RECEIVER, serial: random.next() as u32 };
            let notes = [attach, ask, Note::List];
            stranger.say(&notes[random.below(3) as usize].encode());
        }
        // A few connections that stay as they are.
        if kept.len() < 8 {
            kept.push(stranger.fd.try_clone().expect("a duplicate"));
        } else if random.below(4) == 0 {
            kept.clear();
        }
    });
}

#[test]
fn anything_beside_notes() {
    let odd = odd_descriptors();
    attack("descriptors", move |random, stranger| {
        for _ in 0..10 {
            let fds: Vec<_> = (0..1 + random.below(253))
                .map(|_| odd[random.below(odd.len() as u64) as usize].as_raw_fd())
                .collect();
            stranger.say_with(&any_note(random), &fds[..1 + random.below(fds.len() as u64) as usize]);
        }
    });
}

#[test]
fn more_connections_than_anybody_needs() {
    let _turn = alone();
    let mut crowd = Crowd::new(16 << 10);
    let mine: Vec<_> = (0..2000).filter_map(|_| Stranger::at(RECEIVER)).collect();
    assert!(mine.len() > 500);
    // Others find the door open, and the receiver has descriptors left.
    crowd.welcome(How::Calls);
    crowd.progress("with 2000 connections of one process");
    let used = descriptors(crowd.receiver.pid()).len();
    assert!(used < 200, "{used} descriptors");
    // Many processes with a few each.
    let others: Vec<_> = (0..40)
        .map(|_| {
            child(|| {
                let _mine: Vec<_> = (0..60).filter_map(|_| Stranger::at(RECEIVER)).collect();
                sleep(Duration::from_secs(60));
                true
            })
        })
        .collect();
    crowd.welcome(How::Plain);
    crowd.progress("with 2400 connections of many processes");
    drop(others);
    drop(mine);
    // The two that came have a connection each.
    crowd.rests_more(2, "without them");
    crowd.end();
}

/// The page by which all senders see whether the receiver sleeps is not theirs to write.
#[test]
fn the_inbox_is_the_receivers_alone() {
    use nix::sys::mman::{mmap, MapFlags, ProtFlags};
    let _turn = alone();
    let crowd = Crowd::new(16 << 10);
    let stranger = Stranger::at(RECEIVER).expect("a connection");
    let way = stranger.attach(1, Addr::local(1), RECEIVER);
    let (inbox, _) = way.pool.expect("a pool");
    let len = 4096.try_into().expect("a page");
    for protection in [ProtFlags::PROT_WRITE, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE] {
        // SAFETY: a new mapping, where the kernel chooses.
        let mapped = unsafe { mmap(None, len, protection, MapFlags::MAP_SHARED, &inbox, 0) };
        assert_eq!(mapped.map(|_| ()), Err(nix::Error::EPERM));
    }
    assert!(nix::unistd::write(&inbox, &[0; 64]).is_err());
    let again = File::options().write(true).open(format!("/proc/self/fd/{}", inbox.as_raw_fd()));
    assert!(again.is_err() || nix::unistd::write(again.expect("checked"), &[0; 64]).is_err());
    assert!(nix::unistd::ftruncate(inbox.as_fd(), 0).is_err());
    crowd.progress("after all that");
    crowd.end();
}
