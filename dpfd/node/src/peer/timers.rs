//! When flows are to be looked at. A flow that heard something puts its time off, often each time a frame comes; what is in the heap
//! is put right only once it is the earliest, so that nobody is woken for a time that means nothing any more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Times of flows, by their places.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of each flow: when it is to be looked at.
    times: Vec<Option<u64>>,
    /// Of each flow: its earliest time in the heap, which is not later than that.
    queued: Vec<Option<u64>>,
}

impl Timers {
    /// One more flow.
    pub fn grow(&mut self) {
        self.times.push(None);
        self.queued.push(None);
    }

    /// It is to be looked at then, or earlier.
    pub fn note(&mut self, at: usize, time: u64) {
        if self.times[at].is_none_or(|noted| time < noted) {
            self.set(at, Some(time));
        }
    }

    /// It is to be looked at then, and neither earlier nor later.
    pub fn set(&mut self, at: usize, time: Option<u64>) {
        self.times[at] = time;
        let Some(time) = time else { return };
        if self.queued[at].is_none_or(|queued| time < queued) {
            self.queued[at] = Some(time);
            self.heap.push(Reverse((time, at)));
        }
    }

    /// One that is to be looked at by now. It has no time any more.
    pub fn due(&mut self, now: u64) -> Option<usize> {
        self.settle();
        let Reverse((_, at)) = *self.heap.peek().filter(|first| first.0 .0 <= now)?;
        self.heap.pop();
        (self.times[at], self.queued[at]) = (None, None);
        Some(at)
    }

    /// The earliest time becomes one that is meant.
    pub fn settle(&mut self) {
        while let Some(&Reverse((time, at))) = self.heap.peek() {
            let is_queued = self.queued[at] == Some(time);
            if is_queued && self.times[at] == Some(time) {
                return;
            }
            self.heap.pop();
            if is_queued {
                self.queued[at] = None;
                self.set(at, self.times[at]);
            }
        }
    }

    /// The earliest time, as of the last [`Timers::settle`]; one that was put off since then is told too early.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(n: usize) -> Timers {
        let mut timers = Timers::default();
        (0..n).for_each(|_| timers.grow());
        timers
    }

    #[test]
    fn a_time_that_was_put_off_wakes_nobody() {
        let mut timers = timers(2);
        timers.set(0, Some(100));
        timers.set(0, Some(2000));
        timers.settle();
        assert_eq!(timers.next(), Some(2000));
        timers.set(1, Some(300));
        timers.set(1, None);
        timers.settle();
        assert_eq!(timers.next(), Some(2000));
        assert_eq!(timers.due(1999), None);
        assert_eq!(timers.due(2000), Some(0));
        assert_eq!((timers.due(u64::MAX), timers.next()), (None, None));
    }

    #[test]
    fn a_time_that_comes_earlier_is_kept_once() {
        let mut timers = timers(1);
        timers.set(0, Some(500));
        timers.note(0, 700);
        timers.note(0, 200);
        assert_eq!(timers.next(), Some(200));
        assert_eq!(timers.due(200), Some(0));
        assert_eq!(timers.due(1000), None, "the former time means nothing");
    }

    /// Whatever is set and put off: each flow is found at its own time, in the order of times.
    #[test]
    fn each_is_found_when_it_is_meant() {
        let mut timers = timers(7);
        let mut meant = [None; 7];
        let mut random = 1u64;
        for now in 0..5000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % 7;
            let time = now + 1 + (random >> 50) % 90;
            meant[at] = if random >> 62 == 0 { None } else { Some(time) };
            timers.set(at, meant[at]);
            timers.settle();
            assert_eq!(timers.next(), meant.iter().flatten().min().copied());
            while let Some(at) = timers.due(now) {
                assert!(meant[at].take().is_some_and(|time| time <= now));
            }
            assert!(meant.iter().flatten().all(|time| *time > now), "somebody was forgotten");
        }
    }
}
