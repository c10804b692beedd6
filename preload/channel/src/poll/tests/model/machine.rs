//! What the machine is given of it: the kernel and the channels.

use super::*;

/// The machine's world, and that of its channels.
#[derive(Debug, Clone)]
pub struct Model(pub Rc<RefCell<State>>);

#[derive(Debug)]
pub struct Conn(Rc<RefCell<State>>, usize);

impl Model {
    pub fn new(young: bool) -> Model {
        let mut state = State { files: vec![File::default(); CONNS], ..State::default() };
        state.numbers = (0..FILES).map(|file| (file as i32, file)).collect();
        state.numbers.insert(COPY, 0);
        state.files[CONNS - 1].young = young;
        Model(Rc::new(RefCell::new(state)))
    }

    /// The sleep of a list: whether something came that is the program's, or the event of ours.
    fn sleeps(&self, fds: &mut [pollfd], timeout: i64, by_event: bool) -> Result<i32, i32> {
        const STEP: u64 = 1000;
        let s = &mut *self.0.borrow_mut();
        s.asks();
        let end = s.clock + timeout.max(0) as u64;
        loop {
            let told = i32::from(by_event && core::mem::take(&mut s.told));
            let n = s.polls(fds) + told;
            if n > 0 || timeout == 0 {
                return Ok(n);
            }
            let is_over = timeout > 0 && s.clock + STEP > end;
            if !is_over {
                s.clock += STEP;
                s.asks();
                if s.goes_on() {
                    continue;
                }
                let due = s.list.iter().find(|&&(fd, events)| s.truth(fd, events)[1] != 0);
                if let Some(due) = due {
                    s.failure = Some(format!("asleep, while there is something of {due:x?}: {:?}", s.files));
                }
                s.idle += 1;
                if timeout < 0 || s.idle > 3 && end - s.clock > STEP {
                    return Err(libc::EINTR);
                }
            }
            s.clock = end;
            return Ok(0);
        }
    }
}

impl Conn {
    fn step(&self) -> std::cell::RefMut<'_, State> {
        let mut s = self.0.borrow_mut();
        s.tick();
        s
    }

    fn f<R>(&self, f: impl FnOnce(&mut File) -> R) -> R {
        f(self.step().file(self.1))
    }

    /// As the shim's: arm, look again, drain what was counted before.
    fn settled(&self, arm: bool, ask: bool) -> bool {
        let out = |f: &mut File| f.is_in_ring() && f.bells + f.bells_in_flight > 0 && f.put > f.taken;
        if arm && self.f(out) {
            return true;
        }
        let there = self.f(|f| if f.is_in_ring() { f.bells } else { 0 });
        let arm = self.f(|f| {
            let arm = arm || !f.hot || f.sleepers > 0;
            if arm {
                (f.rung, f.by_event) = (false, false);
            }
            arm
        });
        let ringing = self.f(|f| {
            if f.has_next() && there > 0 {
                (f.rung, f.bells) =
                    if arm { (true, f.bells) } else { (f.rung, f.bells - there.min(f.bells)) };
            }
            f.has_next()
        });
        if ringing {
            return true;
        }
        self.f(|f| {
            f.counted |= f.on_tcp > 0;
            let ended = ask && f.kernel() & (POLLRDHUP | POLLHUP | POLLERR) != 0;
            if !f.is_in_ring() {
                return f.on_tcp > 0 || ended;
            }
            if f.put > f.taken {
                return true;
            }
            f.bells -= there.min(f.bells);
            ended
        })
    }
}

impl Channel for Conn {
    fn is_whole(&self) -> bool {
        self.f(|f| f.shut == [false; 2] && !(f.ended && f.announced) && !f.error)
    }
    fn has_data(&self) -> bool {
        self.f(|f| f.has_next())
    }
    fn sends_by_ring(&self) -> bool {
        self.f(|f| !f.full)
    }
    fn is_readable(&self) -> bool {
        self.f(|f| f.has_next())
    }
    fn has_counted(&self) -> bool {
        self.f(|f| f.counted && f.on_tcp > 0)
    }
    fn has_shut_down(&self) -> bool {
        self.f(|f| f.shut[0])
    }
    fn hears_of_death(&self) -> bool {
        self.f(|f| {
            let died = f.ended && core::mem::take(&mut f.unread);
            if died {
                (f.reset, f.taken_error, f.error) = (true, true, true);
            }
            died
        })
    }
    fn has_error(&self) -> bool {
        self.f(|f| f.error)
    }
    fn is_hot(&self) -> bool {
        self.f(|f| f.hot)
    }
    fn settle(&self, arm: bool) -> bool {
        self.settled(arm, true)
    }
    fn settle_to_sleep(&self) -> bool {
        self.settled(true, false)
    }
    fn is_announced(&self) -> bool {
        self.f(|f| f.kernel() & IN != 0)
    }
}

impl Lookup for Model {
    type Channel = Conn;

    fn channel(&self, fd: i32) -> Option<Conn> {
        let s = self.0.borrow();
        let file = s.file_of(fd).filter(|&file| file < CONNS && !s.files[file].young)?;
        Some(Conn(self.0.clone(), file))
    }
    fn is_idle_set(&self, fd: i32) -> bool {
        let s = &mut *self.0.borrow_mut();
        let idle = s.file_of(fd) == Some(SET) && !s.set[1];
        s.set[0] &= !idle;
        idle
    }
    fn knows_the_rest(&self, fds: &[pollfd]) -> bool {
        let s = self.0.borrow();
        !fds.is_empty() && s.asked.iter().copied().eq(fds.iter().map(|p| (p.fd, p.events)))
    }
}

impl World for Model {
    fn briefly<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        f(self)
    }
    fn kernel(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        self.sleeps(fds, timeout, false)
    }
    fn now(&self) -> u64 {
        self.0.borrow().clock
    }
    fn is_signalled(&self) -> bool {
        false
    }
    fn budget(&mut self, _: &[pollfd]) -> u32 {
        u32::from(self.0.borrow().looks)
    }
    fn look(&mut self, fds: &[pollfd], _: u32) -> bool {
        let all = || fds.iter().filter_map(|p| self.channel(p.fd));
        all().for_each(|c| c.f(File::heat));
        all().any(|c| c.f(|f| f.put > f.taken))
    }
    fn goes_to_sleep(&mut self, _: &[pollfd]) {
        let s = &mut *self.0.borrow_mut();
        assert!(s.slept.is_empty());
    }
    fn is_held(&self, _: usize, fd: i32) -> bool {
        let s = self.0.borrow();
        s.file_of(fd).is_some_and(|file| s.held.contains(&file))
    }
    fn falls_asleep(&mut self, c: &Conn) {
        let by_event = self.0.borrow().by_events;
        c.f(|f| {
            let alone = by_event && f.sleepers == 0 && !f.watched;
            f.hot |= alone;
            f.sleep();
            f.by_event = alone;
        });
        self.0.borrow_mut().slept.push(c.1);
    }
    fn sleep(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        self.sleeps(fds, timeout, true)
    }
    fn wakes(&mut self, _: &[pollfd], _: bool) {
        let s = &mut *self.0.borrow_mut();
        for file in core::mem::take(&mut s.slept) {
            s.file(file).awake();
        }
        s.told = false;
    }
    fn may_sleep(&mut self, time: i64) -> i64 {
        time.min(3_000_000_000)
    }
    fn nets(&self) -> [i64; 2] {
        [1_000_000_000, 4_000_000_000]
    }
    fn never_comes(&mut self, unheard: impl Fn(&Self) -> bool) -> bool {
        unheard(self) && unheard(self)
    }
    fn lost_one(&mut self) {
        let s = &mut *self.0.borrow_mut();
        s.failure = Some(format!("a wake-up was lost: {:?}", s.files));
    }
    fn woke_in_vain(&mut self, _: &[pollfd], times: u32) {
        assert!(times < 50, "it wakes for nothing for ever: {:?}", self.0.borrow());
    }
}
