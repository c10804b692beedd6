//! Threads that sleep, and what the kernel has told them by the time that they come to run.

use super::*;

/// A thread that sleeps.
#[derive(Debug)]
pub(super) struct Sleeper {
    room: usize,
    /// The moment of the set at which it fell asleep.
    from: u32,
    /// It was woken with that, and does not come to run.
    told: Option<Told>,
}

/// What the kernel tells a thread in its sleep.
#[derive(Debug)]
struct Told {
    events: Vec<(u32, u64)>,
    heard: Vec<Heard>,
}

/// An interest of the program's of which that could be.
#[derive(Debug)]
pub(super) struct Heard {
    data: u64,
    pub(super) bits: u32,
    pub(super) nth: u64,
}

impl Sleeper {
    pub fn new(room: usize, from: u32) -> Sleeper {
        Sleeper { room, from, told: None }
    }
}

impl Sim {
    /// Thread `thread` does not come to run when it is woken from now on.
    pub fn holds(&mut self, thread: usize) {
        self.held[thread] = true;
    }

    /// It does.
    pub fn goes(&mut self, thread: usize) -> Result<(), String> {
        self.held[thread] = false;
        for _ in 0..2 {
            self.comes_to_run(thread)?;
            self.swap();
        }
        Ok(())
    }

    /// All do, for the end.
    pub fn all_go(&mut self) -> Result<(), String> {
        (0..2).try_for_each(|thread| self.goes(thread))
    }

    pub(super) fn is_one_held(&self) -> bool {
        self.asleep.iter().flatten().any(|sleeper| sleeper.told.is_some())
    }

    /// A thread that sleeps in the set goes on, if the kernel wakes it.
    pub(super) fn wakes(&mut self) -> Result<bool, String> {
        if !self.kernel.is_ready() {
            return Ok(false);
        }
        let asleep = |t: &usize| self.asleep[*t].as_ref().is_some_and(|sleeper| sleeper.told.is_none());
        let Some(thread) = (0..2).find(asleep) else { return Ok(false) };
        let room = self.asleep[thread].as_ref().map_or(0, |sleeper| sleeper.room);
        let events = self.kernel.poll(room);
        let interests =
            |data: u64| self.believed.iter().filter(move |(_, reg)| reg.data == data && !reg.spent);
        let heard = |(key, reg): (&Key, &Reg)| Heard {
            data: reg.data,
            bits: self.ready(key.0) & reg.events,
            nth: reg.nth,
        };
        let heard = events.iter().flat_map(|event| interests(event.1)).map(heard).collect();
        if let Some(sleeper) = &mut self.asleep[thread] {
            sleeper.told = Some(Told { events, heard });
        }
        if !self.held[thread] {
            self.comes_to_run(thread)?;
        }
        Ok(true)
    }

    /// A thread that was told goes on.
    fn comes_to_run(&mut self, thread: usize) -> Result<(), String> {
        let Some(Sleeper { room, from, told: Some(told) }) =
            self.asleep[thread].take_if(|sleeper| sleeper.told.is_some())
        else {
            return Ok(());
        };
        let tid = thread as u32 + 1;
        self.set.sleeps(tid, false);
        self.kernel.group = Group::Awake;
        let now = self.report(room, from, &told.events);
        if now.is_empty() {
            return self.go_on(thread, room);
        }
        self.set.leave(tid, &mut self.kernel);
        self.check(&now, None, &told.heard)
    }

    /// As the shim's wait does behind a sleep.
    fn report(&mut self, room: usize, from: u32, told: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let mut room = vec![epoll_event { events: 0, u64: 0 }; room];
        let mut out = Out::new(&mut room);
        let (set, w) = (&mut self.set, &mut self.kernel);
        set.begin();
        set.grow_old(w);
        fill(&mut out, told);
        set.filter_after_sleep(from, told.len(), &mut out, w);
        if set.asks_again() && !out.is_full() {
            set.before_asking(out.rest().len(), w);
            let got = w.poll(out.rest().len());
            fill(&mut out, &got);
            set.filter(got.len(), &mut out, w);
        }
        if out.is_full() {
            set.filled(true);
        }
        set.look(&mut out, w);
        set.peeked(&mut out, w);
        let n = out.len();
        room[..n].iter().map(|e| (e.events, e.u64)).collect()
    }

    /// What of a value was told to a thread in its sleep, and may be told by it still: one event that another one was told is not. Of what
    /// is gone since, anything may have come just before. `but`: of others than that interest.
    pub(super) fn still_true(&self, late: &[Heard], data: u64, but: Option<u64>) -> u32 {
        let counts =
            |heard: &&Heard| heard.data == data && Some(heard.nth) != but && !self.told.contains(&heard.nth);
        let is_there = |heard: &Heard| self.believed.values().any(|reg| reg.nth == heard.nth);
        late.iter().filter(counts).fold(0, |bits, heard| bits | if is_there(heard) { heard.bits } else { !0 })
    }
}

/// What the kernel told stands behind what is in the array.
pub(super) fn fill(out: &mut Out, told: &[(u32, u64)]) {
    for (to, &(events, u64)) in out.rest().iter_mut().zip(told) {
        *to = epoll_event { events, u64 };
    }
}
