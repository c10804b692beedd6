//! Others that have the set, or the connections: relatives, strangers, another set of this process.

use super::*;

impl Sim {
    /// This is a child from here on, which has the kernel's set and its peers together with its parent.
    pub fn forks(&mut self) {
        self.set.inherit(&mut self.kernel);
    }

    /// A relative that has inherited the set waits on it.
    pub fn is_used_by_relatives(&mut self) {
        self.set.is_used_by_relatives(&mut self.kernel);
    }

    /// The same, of which this one has not heard yet but by what is counted.
    pub fn relatives_begin(&mut self) {
        self.kernel.relatives_began = true;
    }

    /// A stranger gets the set.
    pub fn is_given(&mut self) {
        self.set.is_strangers_too();
        self.expose(true);
    }

    /// A relative sets interest in the next event of a connection anew.
    pub fn relative_sets_anew(&mut self, file: usize, fd: i32) {
        self.relatives_begin();
        self.others_set(file, fd, self.believed[&(file, fd)].events);
    }

    /// Somebody else who has the set changes a registration.
    pub fn others_set(&mut self, file: usize, fd: i32, events: u32) {
        for regs in [&mut self.kernel.regs, &mut self.believed] {
            let data = regs[&(file, fd)].data;
            let kernels = self.kernel.numbers.get(&fd).copied();
            control(regs, kernels, libc::EPOLL_CTL_MOD, fd, events, data).unwrap();
        }
    }

    /// The kernel tells it of a connection, and it takes the bell.
    pub fn tells_a_relative(&mut self, file: usize) {
        self.kernel.files[file].bells = 0;
    }

    /// Somebody else has the kernel's set, and this one is closed.
    pub fn is_left_to_others(&mut self) {
        self.set.is_left_to_others(&mut self.kernel);
        self.leaves();
    }

    /// The program closes its last descriptor of the set.
    pub fn leaves(&mut self) {
        self.set.close(true, &mut self.kernel);
    }

    /// Another set registers a connection, or no more.
    pub fn elsewhere(&mut self, file: usize, more: bool) {
        let is_open = self.kernel.numbers.values().any(|&f| f == file);
        let f = &mut self.kernel.files[file];
        if !Kernel::is_conn(file) || f.unconnected || f.elsewhere == more || more && !is_open {
            return;
        }
        f.elsewhere = more;
        self.kernel.watch(file as u32, more);
        if more {
            self.kernel.make_cold_beside(file as u32);
        }
    }

    /// That set was told of it, and looks at it by itself.
    pub fn heats_elsewhere(&mut self, file: usize) {
        let f = &mut self.kernel.files[file];
        let alone = f.elsewhere && f.watched - f.resting == 1;
        if alone && !f.uncounted && !f.young && f.is_in_ring() && !f.ended {
            (f.hot, f.grouped, f.rung) = (true, false, false);
        }
    }

    pub fn is_hot_elsewhere(&self, file: usize) -> bool {
        self.kernel.files[file].hot && !self.kernel.files[file].grouped
    }

    pub fn expose(&mut self, more: bool) {
        if more || self.exposed > 0 {
            self.exposed = if more { self.exposed + 1 } else { self.exposed - 1 };
            self.set.expose(more, &mut self.kernel);
        }
    }
}
