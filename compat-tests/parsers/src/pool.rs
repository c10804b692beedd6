//! The pool of an endpoint, with an edge whose sender may have written anything into it, beside an honest one.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use dp_edge::ring::{max_payload, Cursor, Lines, Pos, Tail, HEADER};
use dp_edge::sync::Ordering;
use dpfd::edge::beside::Beside;
use dpfd::edge::segment::Segment;
use dpfd::edge::{message, out_of_line};
use dpfd::pool::in_edge::{InEdge, Longer, Sender};
use dpfd::pool::out_of_line::{Memory, Own};
use dpfd::pool::tokens::{Look, Tokens};
use dpfd::sys::loaned::Got;
use dpfd::{Addr, Parts};

use crate::input::Input;

const RING: usize = 4096;
/// Longer than any message here.
const MOST: usize = 16 << 10;
/// Messages that the program keeps at most.
const HELD: usize = 12;
const HONEST: Addr = Addr { nid: 0, dpid: 2 };

/// The sender of an edge, for its receiver.
#[derive(Debug, Default)]
struct Mute(AtomicBool);

impl Sender for Mute {
    fn room(&self) {}

    fn gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn edge(tokens: &mut Tokens, from: u16) -> (Segment, Arc<Mute>) {
    let (ours, file) = Segment::create_for_receiver(RING).expect("memory");
    let mute = Arc::new(Mute::default());
    tokens.add(InEdge::new(ours, Addr::local(from), mute.clone()));
    (Segment::open(file).expect("an edge"), mute)
}

struct World {
    tokens: Tokens,
    theirs: Segment,
    their_tail: Tail,
    mute: Arc<Mute>,
    honest: Segment,
    tail: Tail,
    sent: u64,
    came: u64,
    held: VecDeque<Got>,
    /// What the sender that lies may have got in place of its edge.
    longer: Option<Segment>,
}

impl World {
    /// All of it is there, and no longer than any may be.
    fn read(got: &Got) -> Vec<u8> {
        assert!(got.size() <= MOST);
        let mut bytes = vec![0; got.size()];
        // SAFETY: it is held, and its pool is there.
        let n = unsafe { got.copy_to(&mut bytes) };
        assert_eq!(n, bytes.len());
        bytes
    }

    fn got(&mut self, got: Got) {
        let bytes = World::read(&got);
        if got.from() == HONEST {
            self.honest_came(&bytes);
        }
        self.held.push_back(got);
        if self.held.len() > HELD {
            self.release(0);
        }
    }

    fn honest_came(&mut self, bytes: &[u8]) {
        assert_eq!(bytes, self.came.to_ne_bytes(), "what the honest one sent, in order");
        self.came += 1;
    }

    fn release(&mut self, at: usize) {
        let Some(got) = self.held.remove(at) else { return };
        World::read(&got);
        let _ = (self.tokens.immediate(got.number), self.tokens.beside(got.number));
        self.tokens.release(got.number);
        self.tokens.release(got.number);
    }

    fn look(&mut self) {
        match self.tokens.look() {
            Look::Got(got) => self.got(got),
            Look::Fresh(at) => self.tokens.emptied(at),
            Look::Failed(errno) => panic!("errno {errno}"),
            Look::Nothing => {}
        }
    }

    fn lie(&mut self, input: &mut Input<'_>) {
        let to = match &self.longer {
            Some(longer) if input.byte() % 2 == 1 => longer,
            _ => &self.theirs,
        };
        let near = self.tokens.edges().next().map_or(Pos::default(), |edge| edge.at);
        let pos = near.add(u64::from(input.byte() % 8));
        match input.byte() % 8 {
            0 => to.lines().header(pos).store(input.double(), Ordering::Release),
            1 => to.rx().cursor.store(input.double(), Ordering::Release),
            2 => {
                let cursor = Cursor { pos, off: input.half() & 0x7fff, frozen: input.byte() % 2 == 1 };
                to.rx().cursor.store(cursor.pack(), Ordering::Release);
            }
            3 => to.space().want(),
            4 => to.tx().cpu.store(input.word(), Ordering::Relaxed),
            5 => {
                let bytes = input.bytes();
                let most = max_payload(to.lines().count());
                // SAFETY: a slice of the input, and no more of it than the ring has room for behind a header.
                unsafe { to.lines().put(pos, HEADER, bytes.as_ptr(), bytes.len().min(most)) };
            }
            _ => {
                let (kind, length) = (u64::from(input.byte() % 4), u64::from(input.half()));
                let stamp = pos.raw() & 0xffff_ffff | 0x8000_0000;
                to.lines().header(pos).store(stamp << 32 | kind << 30 | length, Ordering::Release);
            }
        }
    }

    /// Memory beside a token, or without one.
    fn out_of_line(&mut self, input: &mut Input<'_>) {
        let bytes = vec![input.byte(); 1 + usize::from(input.half()) % (MOST - 1)];
        let pieces = [IoSlice::new(&bytes)];
        let memory = out_of_line::make(&Parts::new(&pieces)).expect("memory");
        let memory = Memory::new(memory, Beside::of(Some(7))).expect("it is as it must be");
        let (key, number) = (self.theirs.key(), u64::from(input.byte() % 4));
        match input.byte() % 4 {
            0 => self.tokens.add_out_of_line(self.honest.key() ^ 1, number, memory),
            1 => self.tokens.add_own(Addr::local(1), Own::OutOfLine(memory)),
            2 => self.tokens.add_own(Addr::local(1), Own::Bytes(bytes.into(), Beside::default())),
            _ => {
                self.tokens.add_out_of_line(key, number, memory);
                let cursor = &self.theirs.rx().cursor;
                let _ = message::send_out_of_line(&self.theirs.lines(), &mut self.their_tail, cursor, number);
            }
        }
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut tokens = Tokens::default();
    let ((theirs, mute), (honest, _)) = (edge(&mut tokens, 1), edge(&mut tokens, HONEST.dpid));
    let mut world = World {
        tokens,
        theirs,
        their_tail: Tail::default(),
        mute,
        honest,
        tail: Tail::default(),
        sent: 0,
        came: 0,
        held: VecDeque::new(),
        longer: None,
    };
    while let Some(choice) = input.choice() {
        match choice % 16 {
            0..=3 => world.lie(&mut input),
            4 => {
                let bytes = vec![7; usize::from(input.half()) % RING];
                let cursor = &world.theirs.rx().cursor;
                let _ = message::send_bytes(&world.theirs.lines(), &mut world.their_tail, cursor, &bytes);
            }
            5 => {
                let (text, cursor) = (world.sent.to_ne_bytes(), &world.honest.rx().cursor);
                let sent = message::send_bytes(&world.honest.lines(), &mut world.tail, cursor, &text);
                world.sent += u64::from(sent.is_ok());
            }
            6..=8 => world.look(),
            9 => {
                if let Some(got) = world.tokens.look_first() {
                    world.got(got);
                }
            }
            10 => {
                let mut to = vec![0; usize::from(input.byte()).max(8)];
                if let Some(copied) = world.tokens.copy_first(&mut to) {
                    if copied.from() == HONEST {
                        world.honest_came(&to[..copied.size()]);
                    }
                }
            }
            11 => {
                let _ = (world.tokens.waiting(), world.tokens.taken(), world.tokens.worth_spinning(1));
                assert!(world.tokens.next_len().is_none_or(|length| length <= MOST));
                assert_eq!(world.tokens.loaned(), world.held.len());
            }
            12 => world.release(usize::from(input.byte()) % HELD),
            13 => world.out_of_line(&mut input),
            14 => {
                let key = [world.theirs.key(), input.double()][usize::from(input.byte() % 4 == 3)];
                let (ours, file) = Segment::create_for_receiver(2 * RING).expect("memory");
                world.tokens.add_longer(key, Longer::new(ours));
                if world.longer.is_none() {
                    world.longer = Segment::open(file).ok();
                }
            }
            _ => {
                world.mute.0.store(input.byte() % 4 == 1, Ordering::Relaxed);
                world.tokens.mark_ended();
                world.tokens.drop_ended();
            }
        }
    }
    // Whatever the other one did: what the honest one sent comes.
    for _ in 0..1000 + 2 * world.sent {
        world.look();
        if world.tokens.own_is_empty() && world.came == world.sent {
            break;
        }
    }
    assert_eq!(world.came, world.sent, "nothing of the honest one's is lost");
    let all = world.held.len();
    assert!(world.tokens.release_oldest(all) && !world.tokens.release_oldest(1));
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    let send = |n: u16| [vec![4], n.to_be_bytes().to_vec()].concat();
    let look = |n: usize| vec![6; n];
    let token =
        |delta: u8, kind: u8, length: u16| [vec![0, delta, 7, kind], length.to_be_bytes().to_vec()].concat();
    let honest = |n: usize| vec![5; n];
    let longer_token =
        |delta: u8, length: u16| [vec![0, 1, delta, 7, 0], length.to_be_bytes().to_vec()].concat();
    vec![
        [send(100), honest(2), look(9), vec![9, 10, 40, 11], send(3000), look(3), vec![12, 0, 12, 3]]
            .concat(),
        [honest(9), vec![6, 6, 9, 10, 9, 11], look(9), vec![12, 2, 12, 0]].concat(),
        [token(0, 0, 4088), look(3), token(0, 1, 7), look(2), honest(1), look(4)].concat(),
        [token(0, 1, 30), look(3), token(0, 3, 40), look(3), vec![11, 12, 1]].concat(),
        [token(0, 2, 8), look(4), honest(1), look(4)].concat(),
        [vec![13, 9, 20, 0, 1, 3], look(4), vec![13, 9, 1, 0, 1, 1, 13, 9, 1, 0, 1, 2], look(4), vec![11]]
            .concat(),
        [
            send(10),
            look(3),
            vec![14, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            longer_token(0, 100),
            look(4),
            honest(1),
            vec![11],
            look(4),
        ]
        .concat(),
        [send(10), look(2), vec![15, 1], look(4), vec![12, 0, 15, 1], honest(2), look(9)].concat(),
        [vec![0, 0, 1], vec![255; 8], send(10), look(3), vec![0, 0, 2, 0, 9, 1], honest(1), look(3)].concat(),
    ]
}
