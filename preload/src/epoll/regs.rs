//! What is registered in a set: found by descriptor and by the value the kernel returns.
//!
//! Memory comes from mmap, never from malloc: this runs inside hooks.

/// One registered channel.
#[derive(Clone, Copy, Default)]
pub struct Reg {
    /// The descriptor it was registered with.
    pub fd: i32,
    /// The connection.
    pub conn: u32,
    /// Events the program wants; 0: deleted here, the kernel does not know yet.
    pub want: u32,
    /// Events the kernel has.
    pub kernel: u32,
    /// The program's value.
    pub data: u64,
    /// The value the kernel has.
    pub kernel_data: u64,
    /// Edge-triggered: up to where tokens were reported.
    pub seen: Option<dpfd::edge::ring::Pos>,
    /// Position in the list of hot ones.
    pub hot_at: u32,
    /// Wait call in which it was reported, and where in the program's array.
    pub serial: u32,
    /// See `serial`.
    pub at: u32,
    /// Looked at in user space.
    pub hot: bool,
    /// `want`, `data` differ from what the kernel has.
    pub dirty: bool,
    /// Cold, but its ring holds something no bell announced: to be looked at before sleeping.
    pub peek: bool,
    /// Edge-triggered: writability is to be reported once.
    pub out_edge: bool,
    /// Sleeps since it last had something.
    pub age: u8,
    /// The entry is in use.
    pub used: bool,
}

/// The table; all zero is an empty one.
pub struct Regs {
    list: *mut Reg,
    /// kernel_data -> index + 1, open addressing, 2 x capacity.
    index: *mut u32,
    cap: usize,
    high: usize,
    used: usize,
    /// Descriptor -> index + 1 for small descriptors would be faster; a hash serves all.
    by_fd: *mut u32,
}

fn map<T>(n: usize) -> Option<*mut T> {
    // SAFETY: an anonymous mapping.
    let p = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            n * size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (p != libc::MAP_FAILED).then_some(p.cast())
}

fn unmap<T>(p: *mut T, n: usize) {
    if !p.is_null() {
        // SAFETY: mapped by map() with the same size.
        unsafe { libc::munmap(p.cast(), n * size_of::<T>()) };
    }
}

fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Regs {
    fn slice(&mut self) -> &mut [Reg] {
        if self.list.is_null() {
            return &mut [];
        }
        // SAFETY: `cap` entries, zeroed or written.
        unsafe { core::slice::from_raw_parts_mut(self.list, self.cap) }
    }

    fn tables(&mut self) -> (&mut [u32], &mut [u32]) {
        if self.index.is_null() {
            return (&mut [], &mut []);
        }
        // SAFETY: 2 x cap entries each, two mappings.
        unsafe {
            (
                core::slice::from_raw_parts_mut(self.index, self.cap * 2),
                core::slice::from_raw_parts_mut(self.by_fd, self.cap * 2),
            )
        }
    }

    fn grow(&mut self) -> bool {
        let cap = (self.cap * 2).max(64);
        let (Some(list), Some(index), Some(by_fd)) =
            (map::<Reg>(cap), map::<u32>(cap * 2), map::<u32>(cap * 2))
        else {
            return false;
        };
        if self.cap > 0 {
            // SAFETY: the new list is larger.
            unsafe { core::ptr::copy_nonoverlapping(self.list, list, self.cap) };
        }
        unmap(self.list, self.cap);
        unmap(self.index, self.cap * 2);
        unmap(self.by_fd, self.cap * 2);
        (self.list, self.index, self.by_fd, self.cap) = (list, index, by_fd, cap);
        self.rehash();
        true
    }

    /// Builds both indexes anew; after a value changed in the kernel, or entries went.
    pub fn rehash(&mut self) {
        let (high, mask) = (self.high, self.cap * 2 - 1);
        let list = self.list;
        let (index, by_fd) = self.tables();
        index.fill(0);
        by_fd.fill(0);
        for i in 0..high {
            // SAFETY: below high <= cap.
            let r = unsafe { *list.add(i) };
            if r.used {
                put(index, mask, hash(r.kernel_data), i);
                put(by_fd, mask, hash(r.fd as u64), i);
            }
        }
    }

    /// Adds; its index. `None` without memory.
    pub fn insert(&mut self, reg: Reg) -> Option<u32> {
        if self.used == self.cap && !self.grow() {
            return None;
        }
        let free = if self.used == self.high {
            self.high
        } else {
            let high = self.high;
            self.slice()[..high].iter().position(|r| !r.used)?
        };
        self.slice()[free] = Reg { used: true, ..reg };
        self.high = self.high.max(free + 1);
        self.used += 1;
        let mask = self.cap * 2 - 1;
        let (index, by_fd) = self.tables();
        put(index, mask, hash(reg.kernel_data), free);
        put(by_fd, mask, hash(reg.fd as u64), free);
        Some(free as u32)
    }

    /// Takes out.
    pub fn remove(&mut self, r: u32) {
        let reg = *self.get(r);
        let mask = self.cap * 2 - 1;
        self.get(r).used = false;
        self.used -= 1;
        let (index, by_fd) = self.tables();
        take(index, mask, hash(reg.kernel_data), r as usize);
        take(by_fd, mask, hash(reg.fd as u64), r as usize);
    }

    /// Entry `r`.
    #[inline(always)]
    pub fn get(&mut self, r: u32) -> &mut Reg {
        debug_assert!((r as usize) < self.cap);
        // SAFETY: indexes come from insert(), below cap.
        unsafe { &mut *self.list.add(r as usize) }
    }

    /// The registration of `fd` for connection `conn`.
    pub fn by_fd(&mut self, fd: i32, conn: u32) -> Option<u32> {
        self.find(false, hash(fd as u64), |r| r.fd == fd && r.conn == conn)
    }

    /// The registration for which the kernel returns `data`.
    pub fn by_data(&mut self, data: u64) -> Option<u32> {
        self.find(true, hash(data), |r| r.kernel_data == data)
    }

    fn find(&mut self, data: bool, h: usize, f: impl Fn(&Reg) -> bool) -> Option<u32> {
        if self.cap == 0 {
            return None;
        }
        let mask = self.cap * 2 - 1;
        for i in 0..=mask {
            // SAFETY: masked to the table.
            let n = unsafe { *(if data { self.index } else { self.by_fd }).add((h + i) & mask) };
            match n {
                0 => return None,
                GONE => continue,
                n => {
                    let r = self.get(n - 1);
                    if r.used && f(r) {
                        return Some(n - 1);
                    }
                }
            }
        }
        None
    }

    /// Indexes below this may be in use.
    pub fn high(&self) -> u32 {
        self.high as u32
    }

    /// Calls `f` for all.
    pub fn each(&mut self, mut f: impl FnMut(&Reg)) {
        let high = self.high;
        self.slice()[..high].iter().filter(|r| r.used).for_each(&mut f);
    }

    /// Whether `f` holds for one.
    pub fn any(&mut self, f: impl Fn(&Reg) -> bool) -> bool {
        let high = self.high;
        self.slice()[..high].iter().any(|r| r.used && f(r))
    }

    /// Empties the table.
    pub fn clear(&mut self) {
        unmap(self.list, self.cap);
        unmap(self.index, self.cap * 2);
        unmap(self.by_fd, self.cap * 2);
        let nothing = core::ptr::null_mut::<u32>();
        *self = Regs { list: nothing.cast(), index: nothing, by_fd: nothing, cap: 0, high: 0, used: 0 };
    }
}

/// A place whose entry went; the search goes on behind it.
const GONE: u32 = u32::MAX;

fn put(table: &mut [u32], mask: usize, h: usize, i: usize) {
    for k in 0..=mask {
        let at = (h + k) & mask;
        if table[at] == 0 || table[at] == GONE {
            table[at] = i as u32 + 1;
            return;
        }
    }
}

fn take(table: &mut [u32], mask: usize, h: usize, i: usize) {
    for k in 0..=mask {
        let at = (h + k) & mask;
        if table[at] == 0 {
            return;
        }
        if table[at] == i as u32 + 1 {
            // Without a successor the chain may end here.
            table[at] = if table[(at + 1) & mask] == 0 { 0 } else { GONE };
            return;
        }
    }
}
