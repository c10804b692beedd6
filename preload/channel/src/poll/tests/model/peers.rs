//! What peers, the kernel and other threads do.

use super::*;

impl State {
    pub(super) fn happens_now(&mut self, op: Op) {
        match op {
            Op::Sends(file) => self.sends(file),
            Op::GoesOut(file) => {
                let f = self.file(file);
                if !f.young && !f.ended && f.is_in_ring() && f.put == f.taken && f.bells == 0 {
                    f.in_flight = 2;
                }
            }
            Op::Lands(file) => {
                let f = self.file(file);
                if f.in_flight > 0 {
                    f.in_flight -= 1;
                    f.on_tcp += 1;
                    if f.in_flight == 0 {
                        f.bells += core::mem::take(&mut f.bells_in_flight);
                    }
                }
            }
            Op::Ends(file, announced) => {
                let f = self.file(file);
                if f.in_flight == 0 {
                    (f.ended, f.announced) = (true, f.announced || announced);
                }
            }
            Op::Dies(file, unread) => {
                let f = self.file(file);
                if !f.ended && f.in_flight == 0 {
                    (f.ended, f.unread) = (true, unread && !f.young);
                }
            }
            Op::Resets(file) => {
                let f = self.file(file);
                if f.in_flight == 0 && !f.unread {
                    f.reset = true;
                }
            }
            Op::Urges(file) => self.file(file).urgent = true,
            Op::Fills(file, full) => self.file(file).full = full,
            Op::Takes(file, all) => self.takes(file, all),
            Op::Fails(file) => {
                let f = self.file(file);
                if f.reset && !f.taken_error && !f.young {
                    (f.taken_error, f.error) = (true, true);
                }
            }
            Op::Shuts(file, reading) => self.file(file).shut[usize::from(reading)] = true,
            Op::Sleeps(file) => {
                let f = self.file(file);
                if !f.young {
                    f.others += 1;
                    f.sleep();
                }
            }
            Op::Wakes(file) => {
                let f = self.file(file);
                if f.others > 0 {
                    f.others -= 1;
                    f.awake();
                }
            }
            Op::Heats(file) => self.file(file).heat(),
            Op::Watches(file) => {
                let f = self.file(file);
                (f.watched, f.hot, f.rung, f.by_event) = (true, false, false, false);
            }
            Op::GoesLive(file) => {
                let is_held = self.held.contains(&file);
                let f = self.file(file);
                // What it was sent as bytes was taken before.
                f.young &= is_held || f.on_tcp > 0;
            }
            Op::Pipe(bits) => self.pipe = bits,
            Op::Set(real) => self.set = [true, real],
        }
    }

    fn sends(&mut self, file: usize) {
        let f = self.file(file);
        if f.ended || f.reset {
            return;
        }
        if f.young {
            f.on_tcp += 1;
            return;
        }
        f.put += 1;
        if f.rung || f.hot && f.sleepers == 0 {
            return;
        }
        f.rung = true;
        match (f.by_event, f.in_flight) {
            (true, _) => self.told = true,
            (false, 0) => f.bells += 1,
            (false, _) => f.bells_in_flight += 1,
        }
    }

    fn takes(&mut self, file: usize, all: bool) {
        let f = self.file(file);
        f.urgent = false;
        let by_tcp = core::mem::take(&mut f.on_tcp) > 0;
        if f.in_flight > 0 || by_tcp && !all {
            return;
        }
        f.taken = if all { f.put } else { f.put.min(f.taken + 1) };
        // Every receive arms anew (W5), and takes the bells when nothing is left.
        if !f.hot || f.sleepers > 0 {
            (f.rung, f.by_event) = (false, false);
        }
        if f.put == f.taken {
            f.bells = 0;
        } else if f.bells > 0 && !f.watched && (!f.hot || f.sleepers > 0) {
            f.rung = true;
        }
    }
}
