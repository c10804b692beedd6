//! A sender that writes anything into its edge while it is read, beside one that is honest: no panic, no access
//! outside, no call without end, and nothing of the honest one's lost.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::out_of_line::Memory;
use super::tests::long;
use super::*;
use crate::edge::message;
use crate::edge::out_of_line;
use crate::edge::segment::Segment;
use crate::pool::in_edge::Sender;
use dp_edge::ring::{Lines, Tail};
use dp_edge::segment::sealed_memory;
use dp_edge::sync::Ordering;

/// How long the attack goes on.
const ATTACK: Duration = Duration::from_millis(500);
/// What no single call may take; the machine may be busy.
const ENDLESS: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Mute;

impl Sender for Mute {
    fn room(&self) {}
    fn gone(&self) -> bool {
        false
    }
}

fn edge(tokens: &mut Tokens, from: u16) -> Segment {
    let (ours, fd) = Segment::create_for_receiver(4096).unwrap();
    tokens.add(InEdge::new(ours, Addr::local(from), Arc::new(Mute)));
    Segment::open(fd).unwrap()
}

#[allow(unsafe_code, clippy::allow_attributes)]
fn copy(got: &Got, to: &mut [u8]) {
    // SAFETY: it is loaned, and its pool lives.
    unsafe { got.copy_to(to) };
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Headers and cursors that have broken such code before, and any others.
fn scribble(edge: &Segment, state: &mut u64, near: u64) {
    let pos = near.wrapping_add(random(state) % 4);
    let stamp = (pos & 0xffff_ffff | 0x8000_0000) << 32;
    let len = [0, 8, 56, 57, 3960, 4024, 4025, 4088, (1 << 30) - 1][(random(state) % 9) as usize];
    let word = match random(state) % 8 {
        0 => 0,
        1 => u64::MAX,
        2 => random(state),
        3 => stamp | 1 << 30 | len,
        4 => stamp | 2 << 30 | len,
        5 => stamp | 3 << 30 | len,
        _ => stamp | len,
    };
    match random(state) % 8 {
        0 => edge.rx().cursor.store(word, Ordering::Release),
        1 => edge.space().want(),
        2 => edge.rx().cpu.store(word as u32, Ordering::Relaxed),
        _ => edge.lines().header(Pos::new(pos)).store(word, Ordering::Release),
    }
}

#[test]
fn hostile_writer_beside_an_honest_one() {
    let end = Instant::now() + ATTACK;
    let (mut edges, mut honest, mut strange) = (0, 0u64, 0u64);
    while Instant::now() < end {
        edges += 1;
        let mut tokens = Tokens::default();
        let (theirs, ours) = (edge(&mut tokens, 1), edge(&mut tokens, 2));
        let (stop, near) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        let (begun, believed) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut state = 0x9e37_79b9_7f4a_7c15 ^ edges;
                let mut tail = Tail::default();
                let _ = message::send_bytes(&theirs.lines(), &mut tail, &theirs.rx().cursor, &[7; 100]);
                begun.store(true, Ordering::Release);
                // Believed once before it lies, also where both share one core.
                while !believed.load(Ordering::Acquire) && !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                while !stop.load(Ordering::Relaxed) {
                    // Enough that is right to be believed again and again.
                    if random(&mut state) % 4 == 0 {
                        let cursor = &theirs.rx().cursor;
                        let _ = message::send_bytes(&theirs.lines(), &mut tail, cursor, &[7; 100]);
                    }
                    scribble(&theirs, &mut state, near.load(Ordering::Relaxed).max(tail.pos.raw()));
                }
            });
            let (mut tail, mut sent, mut next) = (Tail::default(), 0u64, 0u64);
            let mut held = Vec::new();
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for turn in 0..3000 {
                let cursor = &ours.rx().cursor;
                let text = sent.to_ne_bytes();
                sent += u64::from(message::send_bytes(&ours.lines(), &mut tail, cursor, &text).is_ok());
                let began = Instant::now();
                tokens.waiting();
                tokens.next_len();
                match tokens.look() {
                    Look::Got(got) if got.from() == Addr::local(2) => {
                        let mut to = [0; 8];
                        copy(&got, &mut to);
                        assert_eq!((got.size(), u64::from_ne_bytes(to)), (8, next));
                        next += 1;
                        held.push(got);
                    }
                    Look::Got(got) => {
                        let mut to = vec![0; got.size()];
                        copy(&got, &mut to);
                        strange += 1;
                        believed.store(true, Ordering::Release);
                        near.store(tokens.edges().next().map_or(0, |e| e.at.raw()), Ordering::Relaxed);
                        held.push(got);
                    }
                    Look::Fresh(ix) => tokens.emptied(ix),
                    Look::Failed(errno) => panic!("errno {errno}"),
                    Look::Nothing => {}
                }
                if held.len() > 8 || turn % 5 == 0 && !held.is_empty() {
                    let got = held.swap_remove(turn % held.len());
                    tokens.release(got.number);
                }
                assert!(began.elapsed() < ENDLESS);
            }
            stop.store(true, Ordering::Relaxed);
            honest += next;
            assert!(next + 60 >= sent, "{next} of {sent} messages");
        });
    }
    println!("{edges} edges, {honest} honest messages, {strange} strange ones");
    assert!(edges > 1 && honest > 100 && strange > 0);
}

fn memory(len: usize, seals: i32) -> OwnedFd {
    use nix::fcntl::{fcntl, FcntlArg, SealFlag};
    use nix::sys::memfd::{memfd_create, MFdFlags};
    let mut file = File::from(memfd_create(c"hostile", MFdFlags::MFD_ALLOW_SEALING).unwrap());
    file.set_len(len as u64).unwrap();
    let _ = file.write_all(&[1; 8][..len.min(8)]);
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::from_bits_retain(seals))).unwrap();
    file.into()
}

#[test]
fn hostile_memory_is_no_message() {
    let (sizes, write) = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW, libc::F_SEAL_WRITE);
    for seals in [0, write, sizes, libc::F_SEAL_SHRINK | write, libc::F_SEAL_GROW | write] {
        assert!(Memory::new(memory(100, seals), Beside::default()).is_none(), "seals {seals:x}");
    }
    for len in [0, out_of_line::MAX_MESSAGE + 1, 1 << 40] {
        assert!(Memory::new(memory(len, sizes | write), Beside::default()).is_none(), "{len} bytes");
    }
    for path in ["/dev/null", "/dev/zero", "/proc/self/exe", "/"] {
        assert!(Memory::new(File::open(path).unwrap().into(), Beside::default()).is_none(), "{path}");
    }
    assert!(Memory::new(sealed_memory(c"writable", 100).unwrap(), Beside::default()).is_none());
    let good = Memory::new(memory(100, sizes | write), Beside::default()).unwrap();
    assert_eq!((good.size(), good.map().unwrap().len()), (100, 100));
    let most = Memory::new(long(&vec![3; out_of_line::MAX_MESSAGE]), Beside::default()).unwrap();
    assert_eq!(most.map().unwrap()[out_of_line::MAX_MESSAGE - 1], 3);
}

/// A token that names memory which never came, or another edge's, ends its edge and no other.
#[test]
fn hostile_tokens_for_memory_that_is_not_there() {
    let mut tokens = Tokens::default();
    let (a, b) = (edge(&mut tokens, 1), edge(&mut tokens, 2));
    let (mut ta, mut tb) = (Tail::default(), Tail::default());
    let text = |n: u8| Memory::new(long(&[n; 5000]), Beside::default()).unwrap();
    message::send_out_of_line(&a.lines(), &mut ta, &a.rx().cursor, 1).unwrap();
    message::send_out_of_line(&b.lines(), &mut tb, &b.rx().cursor, 1).unwrap();
    // In the name of one of them, without its key; and with the key of the other.
    tokens.add_out_of_line(a.key() ^ 1, 1, text(1));
    tokens.add_out_of_line(0, 1, text(1));
    tokens.add_out_of_line(b.key(), 1, text(2));
    let got = loop {
        match tokens.look() {
            Look::Fresh(ix) => tokens.emptied(ix),
            Look::Got(got) => break got,
            other => panic!("{other:?}"),
        }
    };
    let mut to = [0; 5000];
    copy(&got, &mut to);
    assert_eq!((got.from(), got.size(), to), (Addr::local(2), 5000, [2; 5000]));
    assert_eq!(tokens.corrupt, 1);
    tokens.release(got.number);
    // The other goes on.
    message::send_bytes(&b.lines(), &mut tb, &b.rx().cursor, b"next").unwrap();
    assert!(matches!(tokens.look(), Look::Got(got) if got.size() == 4));
}
