//! What peers do, and what the kernel and other threads do with what they sent.

use super::*;

impl Sim {
    pub fn arrives(&mut self, file: usize) {
        self.connects(file);
        let asleep = *self.kernel.group_of(file) == Group::Asleep;
        let f = &mut self.kernel.files[file];
        if f.ended {
            return;
        }
        if f.by_tcp {
            f.on_tcp += 1;
            self.kernel.event(file, false);
            self.believes(file, false);
            return;
        }
        f.put += 1;
        if !Kernel::is_conn(file) {
            self.kernel.event(file, false);
        } else if f.hot && f.grouped && asleep {
            *self.kernel.group_of(file) = Group::Told;
            self.kernel.bell(file);
        } else if !f.hot && !f.rung {
            f.rung = true;
            self.kernel.bell(file);
        }
        if self.kernel.files[file].in_flight == 0 {
            self.believes(file, false);
        }
    }

    /// The sender goes to TCP, where the receiver's window is full, and back to its ring.
    pub fn goes_out(&mut self, file: usize) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && !f.ended && f.is_in_ring() && f.put == f.taken && f.bells == 0 {
            f.in_flight = 2;
        }
    }

    /// The program's sends go through TCP from here on, or through the ring.
    pub fn splices(&mut self, file: usize, by_tcp: bool) {
        self.kernel.files[file].sends_by_tcp = by_tcp;
    }

    /// The peer closes, or is killed.
    pub fn ends(&mut self, file: usize, killed: bool) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if !Kernel::is_conn(file) || f.ended || f.in_flight > 0 {
            return;
        }
        (f.ended, f.killed, f.unread) = (true, killed, f.put % 2 == 1);
        self.kernel.event(file, true);
        self.believes(file, true);
    }

    /// The peer sends a byte out of band, behind which nothing of it goes through the ring any more.
    pub fn sends_urgent(&mut self, file: usize) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && !f.ended && f.on_tcp + f.in_flight == 0 && f.put == f.taken {
            (f.urgent, f.by_tcp) = (true, true);
            self.kernel.event(file, false);
            self.believes(file, false);
        }
    }

    /// The peer resets a connection.
    pub fn resets(&mut self, file: usize, killed: bool) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && !f.ended && f.in_flight == 0 {
            (f.ended, f.reset, f.killed) = (true, true, killed);
            self.kernel.event(file, true);
            self.believes(file, true);
        }
    }

    /// The bytes in flight arrive, one after the other.
    pub fn lands(&mut self, file: usize) {
        let f = &mut self.kernel.files[file];
        if f.in_flight > 0 {
            f.in_flight -= 1;
            f.on_tcp += 1;
            if f.in_flight == 0 {
                f.bells += core::mem::take(&mut f.bells_in_flight);
            }
            self.kernel.event(file, false);
            self.believes(file, false);
        }
    }

    pub fn robbed(&mut self, file: usize) {
        self.connects(file);
        if Kernel::is_conn(file) {
            let f = &mut self.kernel.files[file];
            (f.bells, f.rung) = (0, false);
            self.with_both(|sim| sim.set.bells_are_gone(file as u32, &mut sim.kernel));
        }
    }

    /// A low-water mark is set for which there are bytes enough: of those in the ring the kernel makes no edge.
    pub fn mark_is_set(&mut self, file: usize) {
        self.with_both(|sim| sim.set.rises_anew(file as u32, &mut sim.kernel));
    }

    /// What a sleep that lasts long finds of the connections.
    pub fn finds_lost(&mut self) -> bool {
        self.set.find_lost(&mut self.kernel)
    }

    /// Another connection has the entry and the number of this one, which ended where the set did not hear of it.
    pub fn is_another(&mut self, file: usize) {
        self.kernel.regs.retain(|key, _| key.0 != file);
        self.believed.retain(|key, _| key.0 != file);
        self.kernel.files[file] = File::default();
    }

    /// A sender tells whoever sleeps by an event that is not a connection's.
    pub fn tells_by_event(&mut self, file: usize) {
        self.kernel.files[file].put += 1;
        self.kernel.group = Group::Told;
        self.believes(file, false);
    }

    /// A receive or a poll that waits looks at a connection which no set watches.
    pub fn heats(&mut self, file: usize) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if f.watched == 0 && !f.uncounted && !f.young && f.is_in_ring() && !f.ended {
            (f.hot, f.grouped, f.rung) = (true, false, false);
        }
    }
}
