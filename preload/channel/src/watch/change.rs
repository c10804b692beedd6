//! What the program registers: noted here, and told to the kernel at once or before the set sleeps.

use super::{Once, Row, Set, Target, World, ALWAYS, ET, IN, ONESHOT, OUT, SPECIAL};

impl Set {
    /// epoll_ctl(2) by the program. What the kernel returns, or would return.
    pub fn control(
        &mut self,
        op: i32,
        fd: i32,
        target: Target,
        event: Option<(u32, u64)>,
        w: &mut impl World,
    ) -> Result<(), i32> {
        if self.inherited {
            self.use_both(w);
        }
        if let (Target::Conn(conn), Some((events, _))) = (target, event) {
            // Before the kernel has it: of the one event of it a relative may be told, and one that has not begun yet, as well.
            if events & ONESHOT != 0 && (self.is_shared(w) || w.relatives_may_come()) {
                w.asks_for_one(conn);
            }
        }
        if self.rows.is_empty() {
            // One that gets the value of what has just gone has a row.
            if target == Target::Other && self.gone.is_empty() {
                return self.control_plain(op, fd, event, w);
            }
            self.unfold();
        }
        let row = self.rows.find(fd, target).or_else(|| self.unconnected(op, fd, target));
        match (op, row, event) {
            (libc::EPOLL_CTL_ADD, None, Some((events, data))) => {
                self.add(fd, target, None, (events, data), w)
            }
            // Deleted here, and not in the kernel yet: there again.
            (libc::EPOLL_CTL_ADD, Some(r), Some((events, data))) if self.rows.get(r).want == 0 => {
                if events & SPECIAL == 0 {
                    return self.change(r, events, data, w);
                }
                self.sync_row(r, w);
                self.add(fd, target, None, (events, data), w)
            }
            // The kernel says whether it has it. If not, it is another one in the entry and at the number of one that nobody took
            // back here, as in a child of which the parent closed it first.
            (libc::EPOLL_CTL_ADD, Some(r), Some(event)) if matches!(target, Target::Conn(_)) => {
                self.add(fd, target, Some(r), event, w)
            }
            // Of an unknown descriptor that was closed, and its number used again.
            (libc::EPOLL_CTL_ADD, Some(r), Some((events, data))) if target == Target::Other => {
                w.ctl(op, fd, events, data)?;
                self.lose(r, w);
                self.noted(fd, target, events, data, w);
                Ok(())
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, Some(r), event) if self.rows.get(r).want == 0 => {
                // That this is no way to set interest anew, the kernel says first.
                let exclusive = event.is_some_and(|(events, _)| events & libc::EPOLLEXCLUSIVE as u32 != 0);
                Err(if exclusive && op == libc::EPOLL_CTL_MOD { libc::EINVAL } else { libc::ENOENT })
            }
            (libc::EPOLL_CTL_MOD, Some(r), Some((events, data))) => {
                self.change(r, events, data, w)?;
                self.promote(r, target, w);
                Ok(())
            }
            (libc::EPOLL_CTL_DEL, Some(r), _) => self.delete(r, fd, w),
            (_, _, event) => {
                let (events, data) = event.unwrap_or((0, 0));
                w.ctl(op, fd, events, data)
            }
        }
    }

    /// The kernel's alone: there is neither a connection nor a set among the registrations.
    fn control_plain(
        &mut self,
        op: i32,
        fd: i32,
        event: Option<(u32, u64)>,
        w: &mut impl World,
    ) -> Result<(), i32> {
        let (events, data) = event.unwrap_or((0, 0));
        let result = w.ctl(op, fd, events, data);
        // By a number that was closed the kernel refuses: it has nothing for it, or nothing that could be changed. One that
        // it takes as new is another file by now.
        let was_closed = result.is_err() == (op == libc::EPOLL_CTL_DEL);
        if op != libc::EPOLL_CTL_MOD && (was_closed || result.is_ok()) {
            let data = self.plain.forget(fd).filter(|_| was_closed);
            self.forgotten |= data.map_or(0, Self::mark);
        }
        if op == libc::EPOLL_CTL_DEL {
            return result;
        }
        if result.is_ok() && !self.plain.note(fd, events | ALWAYS, data) {
            self.unfold();
            self.rows.insert(Row::new(fd, Target::Other, events | ALWAYS, data));
        }
        result
    }

    /// Number `fd` stands for connection `conn` from now on: it may have been registered before it was connected.
    pub fn connected(&mut self, fd: i32, conn: u32, w: &mut impl World) {
        if self.rows.is_empty() {
            if !self.plain.has_number(fd) {
                return;
            }
            self.unfold();
        }
        let Some(r) = self.rows.find(fd, Target::Other) else { return };
        // It may be that of another file that had this number.
        if self.forget_if_gone(r, w) {
            return;
        }
        // Whether its one report was told, nobody has looked at before.
        let want = self.rows.get(r).want;
        if self.inherited {
            return w.uncounted(conn);
        }
        if want & ONESHOT != 0 && self.rows.get(r).is_due() {
            self.rows.get_mut(r).once = Once::Unknown;
        }
        self.promote(r, Target::Conn(conn), w);
    }

    /// The registration by which a change of `target` is meant that was not a connection yet when it was registered.
    fn unconnected(&self, op: i32, fd: i32, target: Target) -> Option<u32> {
        let may = op != libc::EPOLL_CTL_ADD && matches!(target, Target::Conn(_));
        may.then(|| self.rows.find(fd, Target::Other)).flatten()
    }

    /// Row `r` is that of a connection from here on, where it was registered before it was one. The kernel has for it what
    /// the row says.
    fn promote(&mut self, r: u32, target: Target, w: &mut impl World) {
        let row = *self.rows.get(r);
        let (Target::Other, Target::Conn(conn)) = (row.target, target) else { return };
        if self.inherited {
            return;
        }
        w.watch(conn, true);
        w.make_cold_beside(conn);
        self.rows.remove(r);
        if let Some(r) = self.noted(row.fd, target, row.want, row.data, w) {
            self.rows.get_mut(r).once = row.once;
            self.hear(r, w);
        }
    }

    /// From here on there are rows.
    fn unfold(&mut self) {
        let Set { plain, rows, .. } = self;
        // Without memory the value of a stranger is not known, as it is not in noted().
        plain.drain(|fd, events, data| {
            rows.insert(Row::new(fd, Target::Other, events, data));
        });
    }

    /// `stale`: a row of that number and entry, which the kernel may have forgotten.
    fn add(
        &mut self,
        fd: i32,
        target: Target,
        stale: Option<u32>,
        (events, data): (u32, u64),
        w: &mut impl World,
    ) -> Result<(), i32> {
        if let Target::Conn(conn) = target {
            // From here on the kernel's readiness counts, so its sender must ring: another set that has it hot finds
            // that out before it sleeps, and the bell wakes it if it sleeps.
            w.watch(conn, true);
        }
        let result = w.ctl(libc::EPOLL_CTL_ADD, fd, events, data);
        match (target, result) {
            (Target::Conn(conn), Err(e)) => {
                w.watch(conn, false);
                return Err(e);
            }
            (_, Err(e)) => return Err(e),
            (Target::Conn(conn), Ok(())) => w.make_cold_beside(conn),
            (Target::Set(inner), Ok(())) => w.expose(inner, true),
            _ => {}
        }
        if let Some(r) = stale {
            // Its connection is no more, and nobody counts who watched it.
            self.rows.get_mut(r).forks = self.forks.wrapping_sub(1);
            self.remove(r, w);
        }
        if let Some(r) = self.noted(fd, target, events, data, w) {
            // What came while nobody relied on the kernel was not rung for.
            self.hear(r, w);
            if !self.waiters.anyone_asleep() && self.rows.get(r).peek {
                self.make_hot(r, w);
            }
        }
        Ok(())
    }

    /// Adds a row for what the kernel has accepted.
    fn noted(&mut self, fd: i32, target: Target, events: u32, data: u64, w: &mut impl World) -> Option<u32> {
        // Whatever had this number and was not seen closed is gone.
        while let Some(stale) = self.stale(fd, w) {
            self.lose(stale, w);
        }
        // An event with this value no longer tells which one it is.
        self.cool_value(data, None, w);
        match self.rows.insert(Row::new(fd, target, events | ALWAYS, data)) {
            Some(r) => {
                let row = self.rows.get_mut(r);
                (row.forks, row.born, row.told) = (self.forks, self.moment, self.moment);
                self.moment = self.moment.wrapping_add(1);
                self.special += usize::from(target != Target::Other);
                Some(r)
            }
            None => {
                if let Target::Conn(conn) = target {
                    // Without memory it cannot be counted.
                    w.uncounted(conn);
                }
                None
            }
        }
    }

    /// A row of number `fd` that was another descriptor's.
    fn stale(&self, fd: i32, w: &impl World) -> Option<u32> {
        self.rows.with_number(fd).find(|&r| match self.rows.get(r).target {
            Target::Conn(_) => false,
            Target::Set(set) => !w.is_open(set),
            Target::Other => true,
        })
    }

    /// Removes the row of a descriptor that is no connection and was closed. A copy of it may keep its registration.
    pub(super) fn lose(&mut self, r: u32, w: &mut impl World) {
        let data = self.rows.get(r).kernel_data;
        self.remove(r, w);
        self.may_tell_unknown(data, w);
    }

    /// Cools the hot rows of a value, but for `except`.
    fn cool_value(&mut self, data: u64, except: Option<u32>, w: &mut impl World) {
        loop {
            let rows = &self.rows;
            let Some(&r) = self.hot.all().iter().find(|&&r| {
                let row = rows.get(r);
                Some(r) != except && (row.data == data || row.kernel_data == data)
            }) else {
                return;
            };
            self.make_cold(r, w);
        }
    }

    fn change(&mut self, r: u32, events: u32, data: u64, w: &mut impl World) -> Result<(), i32> {
        let row = *self.rows.get(r);
        let asleep = self.waiters.anyone_asleep();
        let writable = |w: &mut _| row.conn().is_some_and(|conn| World::writable(w, conn));
        let lazy = row.is_hot()
            && !asleep
            // All but these two only the kernel can report.
            && ((events | ALWAYS) ^ row.kernel) & !(IN | OUT) == 0
            && events & SPECIAL == 0
            && (data == row.kernel_data || self.rows.with_data(data).next().is_none())
            && (events & OUT == 0 || writable(w));
        // Counted before the kernel has it, as one that is added.
        let rested = self.stir(r, w);
        // By the number that the program gave: closed ones are the kernel's to refuse.
        let told = if lazy { Ok(()) } else { w.ctl(libc::EPOLL_CTL_MOD, row.fd, events, data) };
        // Also where that was refused: it rests no more, so the next change would not know that the word may be hot.
        if let (true, Some(conn)) = (rested, row.conn()) {
            w.make_cold_beside(conn);
        }
        told?;
        if !lazy && data != row.kernel_data {
            self.goes(&row);
        }
        let row = self.rows.get_mut(r);
        row.want = events | ALWAYS;
        row.data = data;
        // Setting interest anew is a new chance for an edge.
        (row.out_edge, row.seen, row.once) = (true, None, Once::Due);
        // What the kernel says from here on is of this one.
        row.doubtful = false;
        if lazy {
            if row.want != row.kernel || row.data != row.kernel_data {
                self.mark_dirty(r);
            }
            self.show(r, w);
            return Ok(());
        }
        row.kernel = row.want;
        if core::mem::take(&mut row.dirty) {
            self.dirty -= 1;
        }
        let before = row.kernel_data;
        self.rows.set_kernel_data(r, data);
        if before != data {
            self.cool_value(data, Some(r), w);
            self.loses_value(before, w);
        }
        if self.rows.get(r).is_hot() {
            if events & SPECIAL != 0 || events & IN == 0 || !self.is_only_one(r, w) {
                self.make_cold(r, w);
            } else {
                self.show(r, w);
                // Somebody sleeps who looked by what was wanted before.
                if asleep {
                    self.wake(r, w);
                }
            }
        }
        self.hear(r, w);
        Ok(())
    }

    /// A cold row, new or changed: what its ring has already, nobody announces. Whoever sleeps is woken for it.
    pub(super) fn hear(&mut self, r: u32, w: &mut impl World) {
        self.peek_at(r, w);
        if self.waiters.anyone_asleep() && self.has_unheard(r, w) {
            self.kick(r, w);
        } else {
            self.tell_outside(w);
        }
    }

    /// The bells of a connection were taken, and what they announced was not.
    pub fn bells_are_gone(&mut self, conn: u32, w: &mut impl World) {
        for r in 0..self.rows.high() {
            if self.conn_of(r) == Some(conn) && !self.inherited && !self.rows.get(r).is_spent() {
                self.make_cold(r, w);
                if self.rows.is_used(r) {
                    // What the kernel had to tell of it, nobody can know any more.
                    (self.rows.get_mut(r).once, self.rows.get_mut(r).silent) = (Once::Due, true);
                    self.hear(r, w);
                }
            }
        }
    }

    /// A bell of the connection, or of several, which may be the one that tells whoever sleeps here, was taken by somebody else. False:
    /// nothing of the set can wake him, nor is there anything in it that he relies on.
    pub fn bell_was_taken(&mut self, conn: Option<u32>, w: &mut impl World) -> bool {
        if !self.waiters.anyone_asleep() || self.inherited {
            return false;
        }
        let has = |conn: u32| (0..self.rows.high()).any(|r| self.conn_of(r) == Some(conn));
        let row = self.to_kick().filter(|_| conn.is_none_or(has));
        row.inspect(|&r| self.kick(r, w)).is_some()
    }

    /// The kernel makes an edge of what the program did with a connection, for all that is ready, so it is one here.
    pub fn rises_anew(&mut self, conn: u32, w: &mut impl World) {
        for r in 0..self.rows.high() {
            if self.conn_of(r) == Some(conn)
                && !self.rows.get(r).is_spent()
                && self.rows.get(r).want & ET != 0
            {
                (self.rows.get_mut(r).once, self.rows.get_mut(r).seen) = (Once::Due, None);
                match self.rows.get(r).is_hot() {
                    true if self.waiters.anyone_asleep() => self.wake(r, w),
                    true => {}
                    false => self.hear(r, w),
                }
            }
        }
    }

    /// Wakes somebody who sleeps, who then looks at everything: once is enough until one of them has come back, or another
    /// thread was told of it, which need not look.
    pub(super) fn kick(&mut self, r: u32, w: &mut impl World) {
        if self.unheard && !self.kick_is_spent {
            return;
        }
        let row = if self.tells_of_bytes(r) { Some(r) } else { self.to_kick() };
        self.unheard = row.is_some_and(|r| self.put_kick(r, w));
    }

    /// A row by which whoever sleeps can be woken. Where there is none he relies on none: senders tell of bytes.
    pub(super) fn to_kick(&self) -> Option<u32> {
        (0..self.rows.high()).find(|&r| self.tells_of_bytes(r))
    }

    /// Whether row `r` is a connection's of which the kernel would tell bytes: an event of ours with the value of another one would pass
    /// for something else's that has it.
    fn tells_of_bytes(&self, r: u32) -> bool {
        self.conn_of(r).is_some() && self.rows.get(r).kernel & IN != 0
    }

    /// A thread leaves the set with what it had room for. What is left wakes the next one, as the kernel does it.
    pub(super) fn tell_the_next(&mut self, w: &mut impl World) {
        if self.peeks == 0 || !self.waiters.anyone_asleep() || self.inherited {
            return;
        }
        let is_left = |&r: &u32| self.rows.is_used(r) && self.rows.get(r).silent && self.has_unheard(r, w);
        if let Some(r) = (0..self.rows.high()).find(is_left) {
            self.unheard = false;
            self.kick(r, w);
        }
    }

    /// Row `r` is hot no more. Its sender may have told whoever sleeps, by a bell that wakes nobody: the kernel has the
    /// registration no more, or without interest in it, or whoever takes the bytes takes the bell. The others' senders rely on it.
    pub(super) fn tell_in_its_place(&mut self, r: u32, w: &mut impl World) {
        if self.waiters.anyone_asleep() && (w.is_told() || self.has_unheard(r, w)) {
            self.kick(r, w);
        }
    }

    /// A hot row, changed while somebody sleeps: wakes them if it has what they would report.
    fn wake(&mut self, r: u32, w: &mut impl World) {
        let row = *self.rows.get(r);
        let Some(conn) = row.conn() else { return };
        if row.want & IN != 0 && w.waiting(conn, row.io) || row.want & OUT != 0 && w.writable(conn) {
            self.kick(r, w);
        }
    }

    fn delete(&mut self, r: u32, fd: i32, w: &mut impl World) -> Result<(), i32> {
        let row = *self.rows.get(r);
        let alone = self.forgotten & Self::mark(row.kernel_data) == 0;
        if row.is_hot() && alone && !self.waiters.anyone_asleep() && row.fd == row.io {
            self.mark_dirty(r);
            self.rows.get_mut(r).want = 0;
            self.show(r, w);
            return Ok(());
        }
        let result = w.ctl(libc::EPOLL_CTL_DEL, fd, 0, 0);
        if row.target == Target::Other && result.is_err() {
            self.may_tell_unknown(row.kernel_data, w);
        }
        // By a number that was closed the kernel refuses; else the kernel has forgotten it, or never knew.
        if !row.detached || result.is_ok() {
            self.remove(r, w);
        }
        result
    }

    /// The program is about to close number `fd` of connection `conn`. `other` is another number of this process that
    /// stands for the same file; `kept` says that relatives have it open. The registration ends with the file.
    pub fn closing(&mut self, fd: i32, conn: u32, other: Option<i32>, kept: bool, w: &mut impl World) {
        if let Some(r) = self.rows.find(fd, Target::Conn(conn)) {
            self.closing_row(r, fd, other, kept, w);
        }
        // Those whose own number was closed before this one.
        for r in 0..self.rows.high() {
            if self.detached == 0 {
                break;
            }
            if self.conn_of(r) == Some(conn) && self.rows.get(r).detached && self.rows.get(r).io == fd {
                self.closing_row(r, fd, other, kept, w);
            }
        }
    }

    fn closing_row(&mut self, r: u32, fd: i32, other: Option<i32>, kept: bool, w: &mut impl World) {
        if self.is_parents(r) {
            // The registration, and all that was said of it, is the parent's.
            self.remove(r, w);
            return;
        }
        match other {
            Some(other) => {
                self.make_cold(r, w);
                if self.rows.is_used(r) {
                    let row = self.rows.get_mut(r);
                    row.io = other;
                    if row.fd == fd && !core::mem::replace(&mut row.detached, true) {
                        self.detached += 1;
                    }
                }
            }
            None => {
                // With relatives the kernel keeps it, and is to know what the program said of it.
                if kept {
                    self.sync_row(r, w);
                }
                if self.rows.is_used(r) {
                    self.remove(r, w);
                }
            }
        }
    }

    /// A number stands for connection `conn` again, to which a registration was left behind.
    pub fn reopened(&mut self, fd: i32, conn: u32) {
        if self.detached == 0 {
            return;
        }
        if let Some(r) = self.rows.find(fd, Target::Conn(conn)) {
            let row = self.rows.get_mut(r);
            row.io = fd;
            self.detached -= usize::from(core::mem::take(&mut row.detached));
        }
    }
}
