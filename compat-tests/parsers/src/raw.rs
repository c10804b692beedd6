//! Two ends of raw mode, and a wire on which anybody may write.

use dp_flow::{Address, Config, Outgoing, Part, Raw, RawFrame};

use crate::flow::{content, Inbox};
use crate::input::Input;
use crate::wire::{Arriving, Wire};

const PART: u16 = 200;
const ENDS: [Address; 2] = [Address { nid: 1, dpid: 1024 }, Address { nid: 2, dpid: 2048 }];

struct Side {
    raw: Raw,
    inbox: Inbox,
    /// The message that is being sent, and its number.
    sending: Option<(RawFrame, u64)>,
    lengths: Vec<u32>,
}

impl Side {
    fn new(which: usize) -> Side {
        let config = Config::new(ENDS[which], ENDS[1 - which], 77, None);
        let config = Config { part_max: PART, first_number: u32::MAX - 20, ..config };
        let inbox = Inbox::with_room(usize::MAX);
        Side { raw: Raw::new(config).expect("an end"), inbox, sending: None, lengths: Vec::new() }
    }

    fn begin(&mut self, total: u32) {
        let id = self.lengths.len() as u64;
        let frame = self.raw.begin(id, Outgoing { total, immediate: Some(id) }).expect("no longer than any");
        self.sending = Some((frame, id));
        self.lengths.push(total);
    }

    /// Writes so many frames of it.
    fn write(&mut self, which: usize, most: u8, wire: &mut Wire) {
        let Some((frame, id)) = &mut self.sending else { return };
        let (id, length) = (*id, self.lengths[*id as usize] as usize);
        let mut out = vec![0; self.raw.frame_max()];
        let mut source = |_: u64, begin: u32, out: &mut [u8]| {
            assert!(begin as usize + out.len() <= length);
            (begin as usize..).zip(out.iter_mut()).for_each(|(at, byte)| *byte = content(which, id, at));
            out.len()
        };
        for _ in 0..most {
            let Some(length) = self.raw.write(frame, &mut source, &mut out) else { return };
            wire.put(1 - which, &out[..length]);
        }
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (mut sides, mut wire, mut forged) = ([0, 1].map(Side::new), Wire::default(), false);
    while let Some(choice) = input.choice() {
        let which = usize::from(choice >> 7);
        let side = &mut sides[which];
        let mut arriving = None;
        match choice & 15 {
            0 => side.begin(u32::from(input.half() % (8 * PART))),
            1 | 2 => side.write(which, input.byte(), &mut wire),
            3 => side.inbox.room = usize::from(input.byte() % 8),
            4 => side.inbox.room = usize::MAX,
            5 => side.raw.set_part_max(input.half()),
            6 => {
                side.raw.set_tag(input.word().max(1));
                // What comes again of the tag before the last one is taken for a new one.
                forged = true;
            }
            7 => side.raw.give_up_begun(),
            8 => arriving = Some(Arriving { to: which, frame: input.bytes().to_vec(), forged: true }),
            _ => arriving = wire.arrive(&mut input),
        }
        let Some(next) = arriving else { continue };
        forged |= next.forged;
        let from = (!forged).then_some(1 - next.to);
        let admits = input.byte() % 32 != 31;
        let Side { raw, inbox, .. } = &mut sides[next.to];
        let before = *raw.counts();
        let admit = |_| if admits { Ok(()) } else { Err(dp_flow::Refused::Early) };
        let _ = raw.on_frame_if(&next.frame, admit, &mut |part: Part<'_>| inbox.put(&part, from));
        assert_eq!(raw.counts().messages_in, inbox.came.len() as u64);
        assert!(raw.counts().messages_lost >= before.messages_lost);
    }
    if !forged {
        for (which, side) in sides.iter().enumerate() {
            let came = &sides[1 - which].inbox.came;
            assert!(came.windows(2).all(|two| two[0].0 < two[1].0), "once, and in order");
            assert!(came
                .iter()
                .all(|(id, total)| *total == side.lengths[id.expect("as it was sent") as usize]));
        }
    }
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    let begin = |side: u8, length: u16| {
        [vec![side << 7], length.to_be_bytes().to_vec(), vec![side << 7 | 1, 255]].concat()
    };
    let arrive = |n: usize| [9, 0, 0].repeat(n);
    let mut seeds = vec![
        [begin(0, 100), begin(0, 1500), begin(1, 0), arrive(20)].concat(),
        [begin(0, 1500), vec![9, 1, 9, 2, 0, 9, 3, 0, 9, 4, 0, 0], arrive(20), begin(0, 500), arrive(9)]
            .concat(),
        [vec![0x83, 2], begin(0, 1500), arrive(9), vec![0x84], begin(0, 700), arrive(9)].concat(),
        [begin(0, 1500), arrive(3), vec![6, 0, 0, 0, 9, 5, 0, 20, 0x87], begin(0, 600), arrive(40)].concat(),
        [begin(0, 1500), arrive(3), vec![9, 0, 31], arrive(9)].concat(),
    ];
    for how in 5..10u8 {
        let forged = [9, how, 0, 33, 2, 0, 35, 1, 7, 9, 9, 0, 1, 0];
        seeds.push([begin(0, 900), begin(1, 30), arrive(1), forged.to_vec(), arrive(9)].concat());
    }
    seeds
}
