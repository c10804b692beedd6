//! The interest list: what is registered in an epoll set, found by descriptor and by the value that the kernel returns.
//!
//! The kernel's key is (open file description, number), and so is this list's: the connection stands for the
//! description. Descriptors that are no connections are noted as well, because an event carries nothing but the
//! program's value, and two registrations may have the same.

use core::mem::ManuallyDrop;

use dp_edge::ring::Pos;
use dp_edge::sys::pages::Pages;

/// An epoll set, as no other one ever is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetName {
    /// Its place among the sets of the process.
    pub place: u32,
    /// Which of the sets that had the place, one after the other.
    pub life: u32,
}

/// What is behind a registered descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A connection, by its index in the family.
    Conn(u32),
    /// Another epoll set.
    Set(SetName),
    /// Anything else: the kernel's alone. It may be closed without our seeing it.
    Other,
}

/// By what a registration is known to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The kernel: every new byte in the ring is announced by a bell.
    Cold,
    /// The set itself looks at the ring; the place in its list of such.
    Hot(u32),
}

/// The one report of a registration with EPOLLONESHOT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// It is still to come.
    Due,
    /// The program has it: nothing more until it sets interest anew.
    Told,
    /// Only the kernel knows: it was told while nobody looked, or not. So the kernel alone tells it.
    Unknown,
}

/// One registration.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The number it was registered with.
    pub fd: i32,
    /// A number that stands for the same file now: for system calls. Another than `fd` once that was closed.
    pub io: i32,
    /// What it is.
    pub target: Target,
    /// Events the program wants; 0: deleted here, the kernel does not know yet.
    pub want: u32,
    /// Events the kernel has.
    pub kernel: u32,
    /// The program's value.
    pub data: u64,
    /// The value the kernel has.
    pub kernel_data: u64,
    /// By what it is known to be ready.
    pub look: Look,
    /// Edge-triggered and hot: up to where tokens were reported.
    pub seen: Option<Pos>,
    /// The wait in which it was reported last, and where in the program's array.
    pub reported: (u32, u32),
    /// The wait in which its bells were looked for last.
    pub emptied: u32,
    /// `want`, `data` differ from what the kernel has. Only hot ones are told later.
    pub dirty: bool,
    /// Cold, and its ring holds something that no bell announced: to be looked at before the next sleep.
    pub peek: bool,
    /// The same, and the kernel does not say that it has something, as it does while a bell of it is not taken.
    pub silent: bool,
    /// Edge-triggered: writability is to be reported once.
    pub out_edge: bool,
    /// EPOLLONESHOT: what became of the one report since the program set interest.
    pub once: Once,
    /// EPOLLONESHOT, and what it reported may have been the last of another one, or an event of ours: then the kernel tells of this one
    /// as well.
    pub doubtful: bool,
    /// EPOLLONESHOT: the set itself told the one report, and the kernel may have told somebody of the same.
    pub by_ring: bool,
    /// EPOLLONESHOT, and told: it stands in no other set's way ([`super::World::rests`]).
    pub rests: bool,
    /// A bell that stays was told of as if it were a relative's one event.
    pub for_one: bool,
    /// Its number was closed, while other descriptors of the file stay: the program can no longer change it.
    pub detached: bool,
    /// Sleeps since it last had something.
    pub age: u8,
    /// How often the set had been inherited when it was registered: a registration of a parent's is counted by that.
    pub forks: u8,
    /// The moment of the set at which it was registered, and that at which it was reported as EPOLLONESHOT.
    pub born: u32,
    /// See `born`, which it is where it never was.
    pub told: u32,
    used: bool,
}

impl Row {
    /// A new registration, cold, as the kernel has it.
    pub fn new(fd: i32, target: Target, want: u32, data: u64) -> Row {
        Row {
            fd,
            io: fd,
            target,
            want,
            kernel: want,
            data,
            kernel_data: data,
            look: Look::Cold,
            seen: None,
            reported: (0, 0),
            emptied: 0,
            dirty: false,
            peek: false,
            silent: false,
            out_edge: true,
            once: Once::Due,
            doubtful: false,
            by_ring: false,
            rests: false,
            for_one: false,
            detached: false,
            age: 0,
            forks: 0,
            born: 0,
            told: 0,
            used: true,
        }
    }

    /// The connection, if it is one.
    pub fn conn(&self) -> Option<u32> {
        match self.target {
            Target::Conn(i) => Some(i),
            _ => None,
        }
    }

    /// Whether it is EPOLLONESHOT, and was told.
    pub fn is_spent(&self) -> bool {
        self.once == Once::Told
    }

    /// Whether the set may tell of it: no one report was told.
    pub fn is_due(&self) -> bool {
        self.once == Once::Due
    }

    /// Whether the set looks at its ring.
    pub fn is_hot(&self) -> bool {
        matches!(self.look, Look::Hot(_))
    }
}

/// A hash table of row numbers plus one, by open addressing; 0 is free.
#[derive(Debug, Default)]
struct Index(Pages<u32>);

/// The least that an index has room for.
const PLACES: usize = 64;

/// A place whose entry went; the search goes on behind it.
const GONE: u32 = u32::MAX;

fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Index {
    fn put(&mut self, key: u64, row: u32) {
        let table = self.0.all_mut();
        let mask = table.len() - 1;
        if let Some(at) = (0..=mask).map(|k| (hash(key) + k) & mask).find(|&at| matches!(table[at], 0 | GONE))
        {
            table[at] = row + 1;
        }
    }

    fn take(&mut self, key: u64, row: u32) {
        let table = self.0.all_mut();
        let mask = table.len().wrapping_sub(1);
        for at in (0..table.len()).map(|k| (hash(key) + k) & mask) {
            match table[at] {
                0 => return,
                n if n == row + 1 => {
                    // Without a successor the chain may end here.
                    table[at] = if table[(at + 1) & mask] == 0 { 0 } else { GONE };
                    return;
                }
                _ => {}
            }
        }
    }

    /// Rows that may have `key`, and some that have not.
    fn candidates(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let table = self.0.all();
        let mask = table.len().wrapping_sub(1);
        (0..table.len())
            .map(move |k| table[(hash(key) + k) & mask])
            .take_while(|&n| n != 0)
            .filter(|&n| n != GONE)
            .map(|n| n - 1)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Rows {
    list: Pages<Row>,
    free: u32,
    used: usize,
    by_fd: Index,
    by_data: Index,
    /// Places in the indexes that are not free: entries, and marks of those that went.
    filled: usize,
}

impl Rows {
    /// An empty list without memory.
    pub const fn new() -> Rows {
        Rows {
            list: Pages::new(),
            free: 0,
            used: 0,
            by_fd: Index(Pages::new()),
            by_data: Index(Pages::new()),
            filled: 0,
        }
    }

    /// Registrations.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Numbers of rows lie below this.
    pub fn high(&self) -> u32 {
        self.list.len() as u32
    }

    /// Row `r`; it comes from [`Rows::insert`] or a search.
    #[inline(always)]
    pub fn get(&self, r: u32) -> &Row {
        &self.list.all()[r as usize]
    }

    /// The same, to be changed; neither descriptor nor the kernel's value: see [`Rows::set_kernel_data`].
    #[inline(always)]
    pub fn get_mut(&mut self, r: u32) -> &mut Row {
        &mut self.list.all_mut()[r as usize]
    }

    /// Whether row `r` is in use.
    pub fn is_used(&self, r: u32) -> bool {
        self.list.all().get(r as usize).is_some_and(|row| row.used)
    }

    /// All rows' numbers.
    pub fn each(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.high()).filter(|&r| self.is_used(r))
    }

    /// Adds; its number. `None` without memory, and nothing changed.
    pub fn insert(&mut self, row: Row) -> Option<u32> {
        if (self.filled + 1) * 2 > self.by_fd.0.len() && !self.rehash((self.used + 1) * 4) {
            return None;
        }
        // A free row's `fd` is the next free one plus one.
        let r = match self.free {
            0 => {
                let r = self.high();
                self.list.push(row).then_some(r)?
            }
            n => {
                self.free = self.get(n - 1).fd as u32;
                *self.get_mut(n - 1) = row;
                n - 1
            }
        };
        self.used += 1;
        self.filled += 1;
        self.by_fd.put(row.fd as u64, r);
        self.by_data.put(row.kernel_data, r);
        Some(r)
    }

    /// Takes row `r` out.
    pub fn remove(&mut self, r: u32) {
        let row = *self.get(r);
        self.by_fd.take(row.fd as u64, r);
        self.by_data.take(row.kernel_data, r);
        let free = self.free;
        let row = self.get_mut(r);
        row.used = false;
        row.fd = free as i32;
        self.free = r + 1;
        self.used -= 1;
    }

    /// The kernel returns `data` for row `r` from now on.
    pub fn set_kernel_data(&mut self, r: u32, data: u64) {
        let old = self.get(r).kernel_data;
        if old != data {
            self.by_data.take(old, r);
            self.get_mut(r).kernel_data = data;
            // The mark of the old value may stay: a place more is filled.
            self.filled += 1;
            self.by_data.put(data, r);
            if self.filled * 4 > self.by_data.0.len() * 3 {
                self.rehash(self.by_data.0.len());
            }
        }
    }

    /// The row of `fd` for `target`.
    pub fn find(&self, fd: i32, target: Target) -> Option<u32> {
        self.with_number(fd).find(|&r| self.get(r).target == target)
    }

    /// The rows of number `fd`.
    pub fn with_number(&self, fd: i32) -> impl Iterator<Item = u32> + '_ {
        self.by_fd.candidates(fd as u64).filter(move |&r| {
            let row = self.get(r);
            row.used && row.fd == fd
        })
    }

    /// The rows for which the kernel returns `data`.
    pub fn with_data(&self, data: u64) -> impl Iterator<Item = u32> + '_ {
        self.by_data.candidates(data).filter(move |&r| {
            let row = self.get(r);
            row.used && row.kernel_data == data
        })
    }

    /// Forgets everything, and keeps a page of each of its arrays.
    pub fn empty(&mut self) {
        let Rows { list, by_fd, by_data, .. } = self;
        for table in [by_fd, by_data] {
            let places = table.0.len();
            table.0.empty();
            // In the page that it has kept, if any.
            let _ = places <= PLACES && table.0.resize(places, 0);
        }
        list.empty();
        (self.free, self.used, self.filled) = (0, 0, 0);
    }

    /// Forgets everything, and gives the memory back.
    pub fn clear(&mut self) {
        self.by_fd.0.clear();
        self.by_data.0.clear();
        self.list.clear();
        (self.free, self.used, self.filled) = (0, 0, 0);
    }

    /// What the rows themselves say: after a change that somebody has left in the middle. False without memory.
    pub fn rebuild(&mut self) -> bool {
        if self.high() == 0 {
            self.empty();
            return true;
        }
        (self.free, self.used) = (0, 0);
        for r in 0..self.high() {
            if self.get(r).used {
                self.used += 1;
            } else {
                self.get_mut(r).fd = self.free as i32;
                self.free = r + 1;
            }
        }
        self.rehash((self.used + 1) * 4)
    }

    /// Builds both indexes anew, with room for `places` at least.
    fn rehash(&mut self, places: usize) -> bool {
        let places = places.max(PLACES).next_power_of_two();
        if places != self.by_fd.0.len() || places != self.by_data.0.len() {
            // Nothing is dropped by leaving: a thread may be ended here at any instruction.
            let mut by_fd = ManuallyDrop::new(Index(Pages::new()));
            let mut by_data = ManuallyDrop::new(Index(Pages::new()));
            let there = by_fd.0.resize(places, 0) && by_data.0.resize(places, 0);
            if !there {
                by_fd.0.clear();
                by_data.0.clear();
                return false;
            }
            self.by_fd.0.take_over(&mut by_fd.0);
            self.by_data.0.take_over(&mut by_data.0);
        } else {
            self.by_fd.0.all_mut().fill(0);
            self.by_data.0.all_mut().fill(0);
        }
        for r in 0..self.high() {
            let row = *self.get(r);
            if row.used {
                self.by_fd.put(row.fd as u64, r);
                self.by_data.put(row.kernel_data, r);
            }
        }
        self.filled = self.used;
        true
    }
}
