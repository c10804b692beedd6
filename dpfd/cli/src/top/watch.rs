//! Whoever looks at a chosen channel: a thread that reads the counters of its two ends, in the families' memory.
//!
//! A look is four loads, and takes lines of the two programs' memory from them, which they take back. So it looks for one
//! millisecond in each hundred only, as fast as it can; what is in the ring then is followed, at longer intervals, until it
//! is taken.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dp_channel::family::{Snapshot, Stage, View};

use super::stay::Stay;
use crate::ls::families::{address, Family};

/// From one burst of looks to the next, how long one takes, and between looks that only follow.
const PERIOD: Duration = Duration::from_millis(100);
const BURST: Duration = Duration::from_millis(1);
const FOLLOW: Duration = Duration::from_micros(200);
/// Looks of a burst between two questions about its time.
const LOOKS: u32 = 8;

/// The two ends of a connection, the first of which was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// What is known of both directions.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// From the chosen end, and to it.
    pub directions: [Stay; 2],
    /// Why nothing more is learned.
    pub over: Option<&'static str>,
}

/// A channel that is being watched, until this is dropped.
pub struct Watch {
    pub ends: Ends,
    told: Arc<Mutex<Told>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at a channel of these families.
    pub fn start(families: &[Family], ends: Ends) -> Watch {
        let told = Arc::new(Mutex::new(Told::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let places: Vec<Place> = families.iter().filter_map(Place::of).collect();
        let (result, end) = (told.clone(), stop.clone());
        let look = move || {
            let why = match Both::find(&places, ends) {
                Ok(both) => both.watch(&result, &end),
                Err(why) => why,
            };
            locked(&result, |told| told.over = Some(why));
        };
        let thread = std::thread::Builder::new().name("dp-top-watch".into()).spawn(look).ok();
        if thread.is_none() {
            locked(&told, |told| told.over = Some("no thread can be had to look at it"));
        }
        Watch { ends, told, stop, thread }
    }

    pub fn told(&self) -> Told {
        locked(&self.told, |told| told.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked<T>(told: &Mutex<Told>, with: impl FnOnce(&mut Told) -> T) -> T {
    with(&mut told.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Where a family's memory is found.
struct Place {
    memory: u64,
    pids: Vec<u32>,
}

impl Place {
    fn of(family: &Family) -> Option<Place> {
        let pids = family.processes.iter().map(|process| process.pid).collect();
        family.memory.map(|memory| Place { memory, pids })
    }

    fn view(&self) -> Option<View> {
        self.pids.iter().find_map(|&pid| View::of_process(pid, self.memory))
    }
}

/// One end in its family's memory.
struct End {
    view: View,
    entry: u32,
    ends: Ends,
}

impl End {
    /// The end of a channel that is `ends.local`.
    fn find(places: &[Place], ends: Ends) -> Option<End> {
        places.iter().find_map(|place| {
            let view = place.view()?;
            let is = |seen: &Snapshot| seen.stage == Stage::Live && is_of(seen, ends);
            let entry = view.connections().into_iter().find(is)?.entry;
            Some(End { view, entry, ends })
        })
    }

    /// Bytes sent and received.
    fn bytes(&self) -> [u64; 2] {
        self.view.bytes(self.entry).unwrap_or([0; 2])
    }

    /// Whether it is the same channel still.
    fn lives(&self) -> bool {
        let all = self.view.connections();
        let seen = all.into_iter().find(|seen| seen.entry == self.entry);
        seen.is_some_and(|seen| seen.stage == Stage::Live && is_of(&seen, self.ends))
    }
}

fn is_of(seen: &Snapshot, ends: Ends) -> bool {
    Ends { local: address(seen.local), peer: address(seen.peer) } == ends
}

struct Both {
    chosen: End,
    other: End,
}

impl Both {
    fn find(places: &[Place], ends: Ends) -> Result<Both, &'static str> {
        let chosen = End::find(places, ends).ok_or("it is no channel")?;
        let ends = Ends { local: ends.peer, peer: ends.local };
        let other = End::find(places, ends)
            .ok_or("its other end belongs to somebody whose programs may not be seen")?;
        Ok(Both { chosen, other })
    }

    fn look(&self, stays: &mut [Stay; 2], start: Instant, near: bool) {
        let ([sent, received], [back, heard]) = (self.chosen.bytes(), self.other.bytes());
        let now = start.elapsed().as_nanos() as u64;
        stays[0].look(now, sent, heard, near);
        stays[1].look(now, back, received, near);
    }

    /// Looks until it is to stop, or the channel is over; says which.
    fn watch(&self, told: &Mutex<Told>, stop: &AtomicBool) -> &'static str {
        let start = Instant::now();
        let mut stays = [Stay::default(), Stay::default()];
        while !stop.load(Ordering::Relaxed) {
            if !(self.chosen.lives() && self.other.lives()) {
                return "it is no channel any more";
            }
            let begin = Instant::now();
            stays.iter_mut().for_each(Stay::pause);
            // The first look of a burst knows nothing of the time before it.
            self.look(&mut stays, start, false);
            while begin.elapsed() < BURST {
                (0..LOOKS).for_each(|_| self.look(&mut stays, start, true));
            }
            while begin.elapsed() < PERIOD && stays.iter().any(Stay::follows) {
                std::thread::sleep(FOLLOW);
                self.look(&mut stays, start, false);
            }
            locked(told, |told| told.directions = stays.clone());
            std::thread::sleep(PERIOD.saturating_sub(begin.elapsed()));
        }
        "it was stopped"
    }
}
