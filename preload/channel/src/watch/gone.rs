//! Values of registrations that are gone, or have another value since, and whose one event was told: the kernel may have told
//! the same to a thread that sleeps, for another reason, and the program may have freed what the value stands for.

/// So many are remembered. They go while a thread that the kernel has woken comes to run, and a program's allocator gives the
/// memory that was freed last.
const MANY: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct Gone {
    /// With the moments of the set ([`super::Set::moment`]) from which on a sleep cannot have heard of them.
    list: [(u64, u32); MANY],
    n: usize,
    /// The one that makes room for the next.
    turn: usize,
}

impl Gone {
    /// None.
    pub const fn new() -> Gone {
        Gone { list: [(0, 0); MANY], n: 0, turn: 0 }
    }

    /// None any more.
    pub fn clear(&mut self) {
        (self.n, self.turn) = (0, 0);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// One more, or the same once more.
    pub fn note(&mut self, data: u64, moment: u32) {
        let known = self.list[..self.n].iter().position(|gone| gone.0 == data);
        let at = known.unwrap_or_else(|| {
            let at = self.turn;
            self.turn = (at + 1) % MANY;
            self.n = self.n.max(at + 1);
            at
        });
        self.list[at] = (data, moment);
    }

    /// The last moment of this value, if it is one.
    pub fn moment(&self, data: u64) -> Option<u32> {
        self.list[..self.n].iter().find(|gone| gone.0 == data).map(|gone| gone.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_by_their_last_moments() {
        let mut gone = Gone::new();
        (0..40).for_each(|k| gone.note(k % 10, k as u32));
        assert_eq!((gone.moment(3), gone.moment(10)), (Some(33), None));
        (100..130).for_each(|k| gone.note(k, 50));
        assert_eq!((gone.moment(7), gone.moment(8), gone.moment(129)), (None, Some(38), Some(50)));
        gone.clear();
        assert_eq!(gone.moment(129), None);
    }
}
