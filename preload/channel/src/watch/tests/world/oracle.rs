//! What a program must be told, by what it believes of its set.

use super::*;

impl Sim {
    /// From now on the kernel alone tells: it must have what the program believes it has.
    pub fn hand_over(&mut self) -> Result<(), String> {
        self.set.hand_over(&mut self.kernel);
        let of_conns = |regs: &BTreeMap<Key, Reg>| regs.keys().filter(|key| Kernel::is_conn(key.0)).count();
        if of_conns(&self.believed) != of_conns(&self.kernel.regs) {
            return Err(format!("{:?} are not {:?}", self.kernel.regs, self.believed));
        }
        for (key, believed) in self.believed.iter().filter(|(key, _)| Kernel::is_conn(key.0)) {
            let has = self.kernel.regs.get(key).filter(|has| has.data == believed.data);
            let silent = |has: &Reg| has.spent || has.events & TOLD == 0;
            let events = |reg: &Reg| reg.events & (TOLD | ET | ONESHOT | EXCLUSIVE);
            let waits = believed.events & ET == 0 || self.ready(key.0) & believed.events == 0;
            let edge = |has: &Reg| has.edge || !believed.edge || waits;
            // A registration whose number was closed nobody can change; and which of two with one value was told, this
            // model guesses.
            let alone = self.believed.values().filter(|other| other.data == believed.data).count() == 1;
            let fixed = !alone || believed.doubtful || self.kernel.numbers.get(&key.1) != Some(&key.0);
            let same = |has: &Reg| events(has) == events(believed) && edge(has);
            if !has.is_some_and(|has| {
                if fixed {
                    true
                } else if silent(believed) {
                    silent(has)
                } else {
                    !silent(has) && same(has)
                }
            }) {
                return Err(format!("{key:?}: {has:?} is not {believed:?}"));
            }
        }
        Ok(())
    }

    /// A waiter that the kernel wakes goes on; then none may sleep over what was not told.
    pub fn settle(&mut self) -> Result<(), String> {
        let both = self.believed.keys().chain(self.other.believed.keys());
        let watched = both.filter(|key| key.0 == INNER).count();
        if self.kernel.files[INNER].exposed != watched {
            return Err(format!("the inner set is watched {watched} times: {:?}", self.kernel.files[INNER]));
        }
        for turn in 0.. {
            let mut woken = false;
            for _ in 0..2 {
                woken |= self.wakes()?;
                self.swap();
            }
            if !woken || turn == 40 {
                break;
            }
        }
        for _ in 0..2 {
            self.sleeps_over_nothing()?;
            self.swap();
        }
        Ok(())
    }

    fn sleeps_over_nothing(&mut self) -> Result<(), String> {
        if self.is_one_held() {
            // Who was told is about to do what is missing.
            return Ok(());
        }
        self.is_seen_from_outside()?;
        // The bell that tells it may be on its way, behind bytes.
        let comes = self
            .kernel
            .files
            .iter()
            .any(|f| f.grouped && f.owner == self.kernel.set && f.bells_in_flight > 0);
        let asleep = self.asleep.iter().any(Option::is_some) && !(self.kernel.group == Group::Told && comes);
        for (key, reg) in &self.believed {
            let bits = self.ready(key.0) & reg.events;
            let exclusive = reg.events & EXCLUSIVE != 0;
            let owed = exclusive && self.kernel.files[key.0].owed && !self.awaits_bell(key.0);
            let left = self.may_pass(*key, reg.data);
            if asleep && !left && (reg.edge || owed) && !reg.spent && bits != 0 {
                return Err(format!("asleep, while {key:?} has {bits:#x} of which nobody was told: {reg:?}"));
            }
        }
        Ok(())
    }

    /// A program that watches the set from outside asks the kernel alone. So the kernel's set must be ready while anything is to be
    /// reported; and where an event of ours makes it ready, something must be.
    fn is_seen_from_outside(&mut self) -> Result<(), String> {
        let asleep = self.asleep.iter().any(Option::is_some);
        if self.exposed > 0 && !asleep && self.kernel.kick.is_some() {
            self.set.is_ready(&mut self.kernel);
            // Which of two with one value was told its one report, this model guesses.
            let due = |reg: &Reg| !reg.spent || reg.doubtful;
            let holds = |(key, reg): (&Key, &Reg)| self.ready(key.0) & reg.events & IN != 0 && due(reg);
            if self.kernel.kick.is_some() && !self.believed.iter().any(holds) {
                return Err(format!("readable from outside, without {:?}", self.believed));
            }
        }
        let is_due = |(key, reg): &(&Key, &Reg)| {
            let due = !reg.doubtful && reg.is_due(IN) && !self.may_pass(**key, reg.data);
            due && self.ready(key.0) & reg.events & IN != 0 && !self.awaits_bell(key.0)
        };
        match self.believed.iter().find(is_due) {
            Some(due) if self.exposed > 0 && !self.kernel.is_ready() => {
                Err(format!("watched from outside, where nobody sees {due:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a registration that no number finds any more has the value of something that was told or replaced, and went.
    fn may_pass(&self, key: Key, data: u64) -> bool {
        self.kernel.numbers.get(&key.1) != Some(&key.0) && self.passed.contains(&data)
    }

    /// The bell of what is in the ring is on its way, behind bytes.
    fn awaits_bell(&self, file: usize) -> bool {
        self.kernel.files[file].bells_in_flight > 0
    }

    /// Whether somebody who asks the kernel of the set from outside, and then the set itself, finds something there.
    pub fn is_found_ready(&mut self) -> bool {
        self.kernel.is_ready() && self.set.is_ready(&mut self.kernel)
    }

    /// What was told is true, and with `all`, is all. `late`: or was true when the kernel told it.
    pub(super) fn check(
        &mut self,
        told: &[(u32, u64)],
        all: Option<()>,
        late: &[Heard],
    ) -> Result<(), String> {
        for &(bits, data) in told {
            let then = self.still_true(late, data, None);
            let who: Vec<Key> =
                self.believed.iter().filter(|(_, r)| r.data == data).map(|(k, _)| *k).collect();
            if who.is_empty() && then == 0 {
                return Err(format!("told of {data}, which nobody registered"));
            }
            // Of several that have one value a report too many is allowed.
            let alone = who.len() == 1;
            if alone && told.iter().filter(|e| e.1 == data).count() > 1 {
                return Err(format!("told of {who:?} more than once in one wait: {told:x?}"));
            }
            let spent = |k: &Key| self.believed[k].spent && !self.believed[k].doubtful;
            if alone && then == 0 && who.iter().all(spent) {
                return Err(format!("told {bits:#x} of {who:?} a second time"));
            }
            let there = who.iter().fold(0, |b, k| b | self.ready(k.0) & self.believed[k].events);
            // Whoever waits exclusively and for edges cannot be asked once more.
            let once_more = |k: &Key| self.believed[k].events & (ET | EXCLUSIVE) != ET | EXCLUSIVE;
            let asked = late.is_empty() || who.iter().all(once_more);
            if bits & TOLD & !there & !then != 0 && who.len() <= 1 && asked {
                return Err(format!("told {bits:#x} of {who:?}, which has {there:#x}"));
            }
        }
        let mut missing = Vec::new();
        let keys: Vec<Key> = self.believed.keys().copied().collect();
        let of_value = |data| self.believed.values().filter(|reg| reg.data == data).count();
        let shared: Vec<u64> = told.iter().map(|e| e.1).filter(|&data| of_value(data) > 1).collect();
        for key in keys {
            let bits = self.ready(key.0) & self.believed[&key].events;
            let of_another =
                self.still_true(late, self.believed[&key].data, Some(self.believed[&key].nth)) != 0;
            let reg = self.believed.get_mut(&key).unwrap();
            let heard = told.iter().filter(|e| e.1 == reg.data).fold(0, |b, e| b | e.0);
            if reg.events & EXCLUSIVE != 0 && heard & bits != 0 {
                self.kernel.files[key.0].owed = false;
            }
            if reg.events & EXCLUSIVE != 0 && bits == 0 && all.is_some() {
                // It was asked, and had nothing: the next event is to tell it.
                reg.edge = false;
            }
            let then = late.iter().find(|heard| heard.nth == reg.nth).map(|heard| heard.bits);
            if heard & then.unwrap_or(0) & !bits != 0 && reg.events & ONESHOT != 0 && !reg.spent {
                // It was there when the kernel told it.
                reg.spent = true;
                self.told.push(reg.nth);
                self.passed.push(reg.data);
            }
            if !reg.is_due(bits) {
                continue;
            }
            reg.doubtful |= heard != 0 && (of_another || shared.contains(&reg.data));
            // An end is told with whatever else there is; what came since the kernel told it, later.
            if heard & bits != 0 && bits & then.unwrap_or(!0) & !heard & (RDHUP | PRI) == 0 {
                reg.edge = reg.events & (ET | EXCLUSIVE) == EXCLUSIVE;
                reg.spent = reg.events & ONESHOT != 0;
                if reg.spent && !reg.doubtful {
                    self.told.push(reg.nth);
                    self.passed.push(reg.data);
                }
            }
            // With something to read the program finds the end itself.
            let bits = if heard & IN != 0 { bits & !ALWAYS } else { bits };
            if heard & bits != bits {
                missing.push((key, bits, heard, *reg));
            }
        }
        match (all, missing.first()) {
            (Some(()), Some(m)) => Err(format!("not told: {m:x?} of {told:x?}")),
            _ => Ok(()),
        }
    }
}
