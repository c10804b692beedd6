//! A number that comes to stand for another file, without the program's doing: its registration goes over to that.
//!
//! The kernel's key is (open file description, number), so it is told twice: to forget the old file while the number still
//! finds it, and of the new one when that is there. Somebody else may keep the old file open, and its registration would
//! go on telling of it.

use super::{Row, Set, Target, World, ET, SPECIAL};

/// Events that the kernel has of a registration on its way: none, not even [`super::ALWAYS`].
const NONE: u32 = 0;

impl Set {
    /// Number `fd` of connection `conn` is about to be replaced. Nothing is told of it until [`Set::replaced`].
    pub fn replacing(&mut self, fd: i32, conn: u32, w: &mut impl World) {
        let Some(r) = self.rows.find(fd, Target::Conn(conn)) else { return };
        if self.is_parents(r) || self.rows.get(r).detached {
            // The registration is the parent's, or not to be found by this number.
            return;
        }
        self.make_cold(r, w);
        if !self.rows.is_used(r) {
            return;
        }
        let row = *self.rows.get(r);
        let _ = w.ctl(libc::EPOLL_CTL_DEL, fd, 0, 0);
        self.remove(r, w);
        // The kernel may have told somebody of the former file, as it will of the next one.
        let born = self.moment;
        self.is_gone(row.data, born);
        let mut on_its_way = Row::new(fd, Target::Other, row.want, row.data);
        (on_its_way.kernel, on_its_way.once) = (NONE, row.once);
        (on_its_way.born, on_its_way.told) = (born, born);
        self.rows.insert(on_its_way);
    }

    /// It stands for something that is the kernel's alone.
    pub fn replaced(&mut self, fd: i32, w: &mut impl World) {
        let Some(r) = self.rows.find(fd, Target::Other) else { return };
        let row = *self.rows.get(r);
        if row.kernel != NONE {
            return;
        }
        // One that was told its one report is told nothing before the program sets interest anew.
        let events = if row.is_spent() { row.want & (ET | SPECIAL) } else { row.want };
        match w.ctl(libc::EPOLL_CTL_ADD, fd, events, row.data) {
            Ok(()) => self.rows.get_mut(r).kernel = row.want,
            Err(_) => self.rows.remove(r),
        }
    }
}
