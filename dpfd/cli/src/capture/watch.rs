//! All channels that are followed: which there are, and looking at each in turn.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dp_channel::family::{Snapshot, Stage, View};
use dp_channel::observed::Memory;
use dp_channel::slot::Side;

use super::arenas::{Arenas, KEPT};
use super::channel::{Channel, Look, Now, Program, Scratch};
use super::file::File;
use super::finder::{Finder, News};
use super::wanted::Wanted;
use crate::ls::families::address;
use crate::ls::processes::Process;

/// How often connections are gone through for new channels, and how many times longer than that it rests at least.
const SCAN: Duration = Duration::from_micros(500);
const REST: u32 = 10;
/// How often memory is asked for that is not known, and after how many times it is given up.
const ASK: Duration = Duration::from_millis(10);
const ASKS: u32 = 100;

/// A channel's memory, slot and generation.
type Place = ([u64; 2], u32, u32);

struct Family {
    view: View,
    /// Known from the next walk on.
    processes: Option<Vec<Process>>,
    /// Connections that were looked at, by their slot and generation then.
    known: HashMap<u32, (u32, u32)>,
    /// Those of them that nobody asks for, as long as nobody asks for their other end either.
    passed: HashMap<u32, [SocketAddr; 2]>,
    asked: Instant,
    /// Since memory was found last.
    asks: u32,
}

impl Family {
    fn is_gone(&self) -> bool {
        self.processes.as_ref().is_some_and(Vec::is_empty)
    }
}

/// What is told at the end.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub channels: u64,
    /// They ended on TCP, which is not seen here.
    pub left: u64,
    /// Their memory could not be had.
    pub closed: u64,
    /// The same, since this program had as many descriptors as it may have.
    pub exhausted: u64,
}

/// See the module.
pub struct Watch {
    wanted: Wanted,
    finder: Finder,
    families: HashMap<u64, Family>,
    arenas: Arenas,
    /// Memory could not be opened for want of descriptors, since any was found.
    exhausted: bool,
    channels: HashMap<Place, Channel>,
    /// Ends whose programs are not asked for, of channels whose other ends may be.
    others: HashMap<Place, (usize, Program)>,
    /// Wanted channels whose memory is not known: either side's program may have it.
    sought: HashSet<[SocketAddr; 2]>,
    next: Instant,
    /// Channels that are found from now on are new.
    settled: bool,
    /// Processes that may not be looked into, and why.
    pub denied: HashMap<u32, String>,
    pub counts: Counts,
    scratch: Scratch,
}

impl Watch {
    /// Finds what there is.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn new(wanted: Wanted) -> io::Result<Watch> {
        let mut watch = Watch {
            wanted,
            finder: Finder::start()?,
            families: HashMap::new(),
            arenas: Arenas::new(KEPT),
            exhausted: false,
            channels: HashMap::new(),
            others: HashMap::new(),
            sought: HashSet::new(),
            next: Instant::now(),
            settled: false,
            denied: HashMap::new(),
            counts: Counts::default(),
            scratch: Scratch::default(),
        };
        // The first walk, whole.
        let began = Instant::now();
        while !watch.settled && began.elapsed() < Duration::from_secs(10) {
            if let Some(news) = watch.finder.wait() {
                watch.settled = matches!(news, News::Walked(..));
                watch.hear(news);
            }
        }
        watch.settled = false;
        watch.scan();
        watch.settled = true;
        Ok(watch)
    }

    /// Whether a process with the shim is there that can be looked into.
    pub fn sees(&self, pid: u32) -> bool {
        self.families
            .values()
            .flat_map(|family| family.processes.iter().flatten())
            .any(|process| process.pid == pid)
    }

    /// How many are followed.
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Family(inode, view) => {
                let family = Family {
                    view,
                    processes: None,
                    known: HashMap::new(),
                    passed: HashMap::new(),
                    asked: Instant::now(),
                    asks: 0,
                };
                self.families.insert(inode, family);
            }
            News::Arena(family, file) => {
                self.arenas.add(family, file);
                self.exhausted = false;
                self.families.values_mut().for_each(|family| family.asks = 0);
            }
            News::Shared(family, inode) => {
                self.arenas.share(family, inode);
                self.families.entry(family).and_modify(|family| family.asks = 0);
            }
            News::Exhausted => self.exhausted = true,
            News::Walked(processes, denied) => {
                self.denied = denied;
                for (inode, family) in &mut self.families {
                    let of = processes.iter().filter(|process| process.family == Some(*inode));
                    family.processes = Some(of.cloned().collect());
                }
            }
        }
    }

    /// Looks at every channel once, and now and then for new ones. Whether there was anything.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn look(&mut self, now: &dyn Fn() -> Now, file: &mut File) -> io::Result<bool> {
        if Instant::now() >= self.next {
            let began = Instant::now();
            let news: Vec<News> = self.finder.news().collect();
            news.into_iter().for_each(|news| self.hear(news));
            self.scan();
            self.put_away(now, file)?;
            self.next = Instant::now() + SCAN.max(began.elapsed() * REST);
        }
        let (families, scratch, counts) = (&self.families, &mut self.scratch, &mut self.counts);
        let view = |family: u64| families.get(&family).map(|family| &family.view);
        let (mut found, mut failed) = (false, None);
        self.channels.retain(|_, channel| match channel.look(&view, now, scratch, file) {
            Ok(Look::Over { on_tcp }) => {
                counts.left += u64::from(on_tcp);
                found = true;
                false
            }
            Ok(look) => {
                found |= look == Look::Found;
                true
            }
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        failed.map_or(Ok(found), Err)
    }

    /// What ended without anybody there to say so: all programs of a channel that can be looked into are gone.
    fn put_away(&mut self, now: &dyn Fn() -> Now, file: &mut File) -> io::Result<()> {
        let families = &self.families;
        let gone = |program: &Program| families.get(&program.family).is_none_or(Family::is_gone);
        let mut failed = None;
        self.channels.retain(|_, channel| {
            let stays = !channel.ends.iter().flatten().all(gone);
            if !stays {
                failed = channel.end(now(), file).err().or(failed.take());
            }
            stays
        });
        let used: Vec<u64> =
            self.channels.values().flat_map(|c| c.ends.iter().flatten().map(|p| p.family)).collect();
        if self.settled {
            self.families.retain(|inode, family| !family.is_gone() || used.contains(inode));
        }
        let lives = |family: u64| self.families.get(&family).is_some_and(|family| !family.is_gone());
        self.finder.forget(self.arenas.put_away(lives));
        failed.map_or(Ok(()), Err)
    }

    /// Goes through all connections for channels that are new.
    fn scan(&mut self) {
        let (mut found, mut sought) = (Vec::new(), HashSet::new());
        for (&inode, family) in &mut self.families {
            let view = &family.view;
            let (known, passed) = (&mut family.known, &mut family.passed);
            let mut missing = false;
            for i in view.used() {
                let (stage, slot, generation) = view.place(i);
                if !matches!(stage, Stage::Offered | Stage::Accepted | Stage::Live) {
                    continue;
                }
                let is_sought =
                    |passed: &HashMap<u32, _>| passed.get(&i).is_some_and(|ends| self.sought.contains(ends));
                if known.get(&i) == Some(&(slot, generation)) && !is_sought(passed) {
                    continue;
                }
                let seen = view.connection(i);
                // Who has it is to be told with it.
                if family.processes.is_none() {
                    continue;
                }
                let memory = self.arenas.find(inode, view, &seen, [slot, generation]);
                let program =
                    program_of(inode, i, &seen, family.processes.as_deref().unwrap_or_default(), view);
                let Some(memory) = memory else {
                    let between = ends(&seen);
                    let wanted =
                        self.wanted.is_of(program.pid, &program.name) && self.wanted.is_between(between);
                    if wanted {
                        sought.insert(between);
                    } else if !self.sought.contains(&between) {
                        known.insert(i, (slot, generation));
                        passed.insert(i, between);
                        continue;
                    }
                    missing = true;
                    if family.asks >= ASKS {
                        known.insert(i, (slot, generation));
                        passed.remove(&i);
                        let count =
                            if self.exhausted { &mut self.counts.exhausted } else { &mut self.counts.closed };
                        *count += u64::from(wanted);
                    }
                    continue;
                };
                known.insert(i, (slot, generation));
                passed.remove(&i);
                found.push(((memory.key(), slot, generation), memory.clone(), seen, program));
            }
            if missing && family.asked.elapsed() >= ASK {
                (family.asked, family.asks) = (Instant::now(), family.asks + 1);
                self.finder.ask(inode);
            }
        }
        self.sought = sought;
        for (place, memory, seen, program) in found {
            self.add(place, &memory, &seen, program);
        }
        let families = &self.families;
        let view = |family: u64| families.get(&family).map(|family| &family.view);
        let all = self.settled;
        self.channels.values_mut().for_each(|channel| channel.begin(&view, all));
    }

    fn add(&mut self, place: Place, memory: &Rc<Memory>, seen: &Snapshot, program: Program) {
        let client = seen.side != Some(Side::Server);
        let end = usize::from(!client);
        let addresses = ends(seen);
        if let Some(channel) = self.channels.get_mut(&place) {
            channel.attach(end, program);
            return;
        }
        if !self.wanted.is_of(program.pid, &program.name) || !self.wanted.is_between(addresses) {
            // Those that nobody asks for any more.
            if self.others.len() > 1 << 16 {
                self.others.clear();
            }
            self.others.insert(place, (end, program));
            return;
        }
        let Ok(observed) = memory.channel(place.1) else {
            self.counts.closed += 1;
            return;
        };
        let mut channel = Channel::new(observed, place.2, addresses);
        channel.ends[end] = Some(program);
        if let Some((end, program)) = self.others.remove(&place) {
            channel.ends[end] = Some(program);
        }
        self.counts.channels += 1;
        self.channels.insert(place, channel);
    }
}

/// Client and server.
fn ends(seen: &Snapshot) -> [SocketAddr; 2] {
    let (own, other) = (address(seen.local), address(seen.peer));
    if seen.side == Some(Side::Server) {
        [other, own]
    } else {
        [own, other]
    }
}

/// The process that has it, as far as it can be told.
fn program_of(family: u64, conn: u32, seen: &Snapshot, processes: &[Process], view: &View) -> Program {
    let holders: Vec<u32> =
        view.members().filter(|(n, _)| seen.holders.contains(n)).map(|(_, member)| member.pid()).collect();
    let process = processes
        .iter()
        .filter(|process| holders.contains(&process.inner))
        .min_by_key(|process| (process.inner != seen.pid, process.pid))
        .or(processes.first());
    let (pid, uid, name) =
        process.map_or((seen.pid, 0, "?".into()), |process| (process.pid, process.uid, process.name.clone()));
    Program { family, conn, pid, uid, name }
}
