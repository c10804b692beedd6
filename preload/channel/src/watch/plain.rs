//! Registrations of a set in which there is neither a connection nor another set.
//!
//! Nothing is to be decided about them, but their values count as soon as a connection comes: two registrations may have
//! the same. Until then they are noted by descriptor number, which costs a store for each epoll_ctl(2), and not what
//! finding rows by descriptor and by value costs: programs whose connections stay on TCP pay for what they do not use.

use dp_edge::sys::pages::Pages;

/// Numbers from here on are rows at once: a list by number would be large.
const MOST: usize = 4096;

/// What is registered with one number. Zero events: nothing, since [`super::ALWAYS`] is among them.
#[derive(Debug, Clone, Copy)]
struct Noted {
    events: u32,
    data: u64,
}

const NOTHING: Noted = Noted { events: 0, data: 0 };

/// See the module.
#[derive(Debug)]
pub struct Plain(Pages<Noted>);

impl Plain {
    /// Nothing noted, and no memory.
    pub const fn new() -> Plain {
        Plain(Pages::new())
    }

    /// The kernel has `events` and `data` for `fd` now. False where that cannot be noted.
    pub fn note(&mut self, fd: i32, events: u32, data: u64) -> bool {
        let at = fd as usize;
        if at >= self.0.len() {
            let room = (at + 1).next_power_of_two().max(64);
            if at >= MOST || !self.0.resize(room, NOTHING) {
                return false;
            }
        }
        self.0.all_mut()[at] = Noted { events, data };
        true
    }

    /// The kernel has nothing for `fd`, or not by this number: the value that was noted.
    pub fn forget(&mut self, fd: i32) -> Option<u64> {
        let noted = core::mem::replace(self.0.all_mut().get_mut(fd as usize)?, NOTHING);
        (noted.events != 0).then_some(noted.data)
    }

    /// Whether something is noted by this number.
    pub fn has_number(&self, fd: i32) -> bool {
        self.0.all().get(fd as usize).is_some_and(|noted| noted.events != 0)
    }

    /// Whether something with this value is noted.
    pub fn has(&self, data: u64) -> bool {
        self.0.all().iter().any(|noted| noted.events != 0 && noted.data == data)
    }

    /// Forgets everything, and keeps a page.
    pub fn empty(&mut self) {
        self.0.empty();
    }

    /// Forgets everything, and gives the memory back.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Calls `f` with the number, events and value of everything noted, and forgets it.
    pub fn drain(&mut self, mut f: impl FnMut(i32, u32, u64)) {
        for (fd, noted) in self.0.all().iter().enumerate() {
            if noted.events != 0 {
                f(fd as i32, noted.events, noted.data);
            }
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_each_number_is_kept() {
        let mut plain = Plain::new();
        plain.forget(3);
        plain.forget(-1);
        assert!(plain.note(3, 1, 30) && plain.note(0, 1, 0) && plain.note(MOST as i32 - 1, 4, 7));
        assert!(plain.note(3, 4, 31) && plain.note(5, 1, 50));
        plain.forget(5);
        assert!(!plain.note(MOST as i32, 1, 1), "too large a number");
        let mut all = Vec::new();
        plain.drain(|fd, events, data| all.push((fd, events, data)));
        assert_eq!(all, [(0, 1, 0), (3, 4, 31), (MOST as i32 - 1, 4, 7)]);
        plain.drain(|_, _, _| panic!("forgotten"));
    }
}
