//! The threads that wait on a set now. A wait may end without a word (cancelled, or left by longjmp), so they are known by
//! thread.

use dp_edge::sys::pages::Pages;

/// A thread that is inside a wait, and how deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inside {
    tid: u32,
    asleep: bool,
}

/// So many have their places in the set itself, and so many of the others are asked at once whether they live.
const MANY: usize = 16;
const NOBODY: Inside = Inside { tid: 0, asleep: false };

/// See the module.
#[derive(Debug)]
pub struct Waiters {
    list: [Inside; MANY],
    n: usize,
    beyond: Pages<Inside>,
    /// The one of these that is asked next.
    turn: usize,
    /// For which there was no memory: known to be there, until they leave.
    more: u32,
}

impl Waiters {
    /// Nobody.
    pub const fn new() -> Waiters {
        Waiters { list: [NOBODY; MANY], n: 0, beyond: Pages::new(), turn: 0, more: 0 }
    }

    /// Nobody again.
    pub fn clear(&mut self) {
        self.beyond.clear();
        (self.n, self.turn, self.more) = (0, 0, 0);
    }

    fn known(&self) -> impl Iterator<Item = &Inside> {
        self.list[..self.n].iter().chain(self.beyond.all())
    }

    fn find(&mut self, tid: u32) -> Option<&mut Inside> {
        self.list[..self.n].iter_mut().chain(self.beyond.all_mut()).find(|w| w.tid == tid)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.n + self.beyond.len() + self.more as usize
    }

    /// A thread begins to wait.
    pub fn enter(&mut self, tid: u32) {
        if let Some(left) = self.find(tid) {
            // It left its last wait by longjmp.
            left.asleep = false;
        } else if self.n < MANY {
            self.list[self.n] = Inside { tid, asleep: false };
            self.n += 1;
        } else if !self.beyond.push(Inside { tid, asleep: false }) {
            self.more += 1;
        }
    }

    /// A thread's wait is over.
    pub fn leave(&mut self, tid: u32) {
        let at = self.known().position(|w| w.tid == tid);
        match at {
            Some(at) => self.take_out(at),
            None => self.more = self.more.saturating_sub(1),
        }
    }

    /// The last one has the place then.
    fn take_out(&mut self, at: usize) {
        let last = match self.beyond.all().last().copied() {
            Some(last) => {
                self.beyond.resize(self.beyond.len() - 1, NOBODY);
                last
            }
            None => {
                self.n -= 1;
                self.list[self.n]
            }
        };
        let mut known = self.list[..self.n].iter_mut().chain(self.beyond.all_mut());
        if let Some(place) = known.nth(at) {
            *place = last;
        }
    }

    /// A thread sleeps in the kernel, or no more. It is inside even where a signal handler, in which it has waited here as well, has
    /// said that it is not.
    pub fn sleeps(&mut self, tid: u32, asleep: bool) {
        if asleep && self.more == 0 && self.find(tid).is_none() {
            self.enter(tid);
        }
        if let Some(w) = self.find(tid) {
            w.asleep = asleep;
        }
    }

    /// Whether one of them sleeps in the kernel, or may.
    pub fn anyone_asleep(&self) -> bool {
        self.more > 0 || self.known().any(|w| w.asleep)
    }

    /// Takes out those that are no more. Of many, some are asked each time.
    pub fn forget_dead(&mut self, lives: impl Fn(u32) -> bool) {
        let known = self.n + self.beyond.len();
        for _ in 0..known.min(MANY) {
            let now = self.n + self.beyond.len();
            let at = self.turn % now.max(1);
            let tid = self.known().nth(at).map(|w| w.tid);
            match tid {
                Some(tid) if !lives(tid) => self.take_out(at),
                _ => self.turn = at + 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_end_without_a_word_none_stays() {
        let mut waiters = Waiters::new();
        for tid in 1..=40 {
            waiters.enter(tid);
            waiters.sleeps(tid, true);
        }
        assert_eq!(waiters.count(), 40);
        for tid in [1, 40, 20, 17] {
            waiters.leave(tid);
        }
        waiters.enter(30);
        assert_eq!((waiters.count(), waiters.anyone_asleep()), (36, true));
        for _ in 0..3 {
            waiters.forget_dead(|tid| tid == 30);
        }
        assert_eq!((waiters.count(), waiters.anyone_asleep()), (1, false));
        waiters.leave(30);
        assert_eq!(waiters.count(), 0);
    }

    #[test]
    fn who_has_waited_in_a_handler_sleeps_all_the_same() {
        let mut waiters = Waiters::new();
        waiters.enter(1);
        waiters.enter(1);
        waiters.leave(1);
        waiters.sleeps(1, true);
        assert!(waiters.anyone_asleep());
        waiters.leave(1);
        assert_eq!(waiters.count(), 0);
    }
}
