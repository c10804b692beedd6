//! What one endpoint sent to another, and what of it came: missing may be only what was with the sender's gateway when that was
//! killed, and nobody had acknowledged.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

use dpfd::Addr;

use crate::kit::{temp_dir, Child, Node};

/// Of messages that are numbered from 1 on, and one more that ends them. Sender and receiver are children, who tell by files without names.
pub struct Account {
    sent: File,
    came: File,
    kills: Vec<Kill>,
    acknowledged: u64,
}

/// Of the sender's gateway.
#[derive(Debug)]
struct Kill {
    /// How many were sent when it was over.
    sent: u64,
    /// How many were acknowledged until then, by this gateway and those before it, at least.
    acknowledged: u64,
}

/// What came, as numbers without a gap: the first and the last of each.
#[derive(Default)]
pub struct Runs(Vec<[u64; 2]>);

impl Runs {
    /// Once, and in order.
    pub fn add(&mut self, number: u64) {
        match self.0.last_mut() {
            Some([_, last]) if number == *last + 1 => *last = number,
            Some([_, last]) => {
                assert!(number > *last, "{number} after {last}");
                self.0.push([number; 2]);
            }
            None => self.0.push([number; 2]),
        }
    }
}

impl Account {
    pub fn new() -> Account {
        let file = || {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = temp_dir().join(format!("dp-node-account-{}-{n}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
            std::fs::remove_file(path).expect("its name");
            file
        };
        Account { sent: file(), came: file(), kills: Vec::new(), acknowledged: 0 }
    }

    /// The sender has sent all up to this one.
    pub fn sent(&self, number: u64) {
        self.sent.write_all_at(&number.to_ne_bytes(), 0).expect("a file");
    }

    /// All that the receiver got.
    pub fn came(&self, runs: &Runs) {
        let bytes: Vec<u8> = runs.0.iter().flatten().flat_map(|number| number.to_ne_bytes()).collect();
        self.came.write_all_at(&bytes, 0).expect("a file");
    }

    /// Kills the gateway of the sender, who sends there.
    pub fn kill(&mut self, node: &Node, there: Addr, gateway: Child) {
        self.ask(node, there);
        gateway.kill();
        self.kills.push(Kill { sent: self.sent_yet(), acknowledged: self.acknowledged });
    }

    /// Nothing waits any more, and both have ended: what is missing was lost as it may be.
    pub fn settle(&mut self, node: &Node, there: Addr) {
        self.ask(node, there);
        let mut bytes = vec![0; self.came.metadata().expect("a file").len() as usize];
        self.came.read_exact_at(&mut bytes, 0).expect("what came");
        let numbers: Vec<u64> =
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect();
        let (mut next, mut came, mut kills) = (1, 0, &self.kills[..]);
        // Behind them all is the one that has no number.
        let end = [self.sent_yet() + 1; 2];
        for [first, last] in numbers.chunks_exact(2).map(|run| [run[0], run[1]]).chain([end]) {
            if first > next {
                // A kill takes what the gateway had, one behind the other, and what came until its sender knew of it. A message may
                // be on its way whose sender has not told yet.
                let of = kills.iter().position(|kill| next <= kill.sent + 2);
                let of = of.unwrap_or_else(|| {
                    panic!("{next} to {} are missing, and no kill lost them: {:?}", first - 1, self.kills)
                });
                let acknowledged = kills[of].acknowledged;
                assert!(
                    acknowledged <= came,
                    "{next} to {} are missing: {came} came before, of {acknowledged} acknowledged",
                    first - 1
                );
                kills = &kills[of + 1..];
            }
            came += last + 1 - first;
            next = last + 1;
        }
        assert!(self.acknowledged <= came, "{came} came of {} acknowledged", self.acknowledged);
    }

    /// What this gateway says is acknowledged is so, whatever becomes of it.
    fn ask(&mut self, node: &Node, there: Addr) {
        let (status, there) = (node.status().expect("it runs"), there.to_string());
        let flows = status.nodes.iter().flat_map(|other| &other.flows);
        self.acknowledged +=
            flows.filter(|flow| flow.there == there).map(|flow| flow.messages_out).sum::<u64>();
    }

    /// How many that is.
    pub fn sent_yet(&self) -> u64 {
        let mut number = [0; 8];
        // Nothing is in it before the first one.
        self.sent.read_exact_at(&mut number, 0).map_or(0, |()| u64::from_ne_bytes(number))
    }
}
