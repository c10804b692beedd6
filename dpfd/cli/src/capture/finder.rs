//! Finds programs with the shim and their memory, in a thread of its own: a walk through /proc takes longer than a ring may
//! be left alone.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use dp_channel::family::{self, View};

use super::arenas::KEPT;
use super::rights::{Denied, Opened};
use crate::ls::processes::{self, Process};

/// How often it walks, and how many times longer than a walk it rests at least.
const EVERY: Duration = Duration::from_millis(100);
const REST: u32 = 10;
/// The same, where somebody waits for it.
const SOON: Duration = Duration::from_millis(10);
/// A process that has executed a file so long ago has loaded what it loads.
const YOUNG: Duration = Duration::from_secs(6);
/// Name of arenas, as /proc/PID/fd shows it.
const ARENA: &str = "dp-arena";

/// What was found.
pub enum News {
    /// The memory of a family, by its inode.
    Family(u64, View),
    /// Memory with channels, which a process of that family has.
    Arena(u64, File),
    /// A process of that family has memory that was found before, by its inode.
    Shared(u64, u64),
    /// There was no descriptor for memory.
    Exhausted,
    /// A walk is over: the processes with the shim, and why some may not be looked into.
    Walked(Vec<Process>, HashMap<u32, String>),
}

enum Ask {
    /// Memory with channels of that family.
    Find(u64),
    /// Memory that is not known to who asks any more, by its inode.
    Forget(Vec<u64>),
}

/// The thread, as others see it.
pub struct Finder {
    asks: Sender<Ask>,
    news: Receiver<News>,
}

impl Finder {
    pub fn start() -> std::io::Result<Finder> {
        let (asks, asked) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let work = move || Walker::default().work(&asked, &tell);
        thread::Builder::new().name("finder".into()).spawn(work)?;
        Ok(Finder { asks, news })
    }

    /// Channels of that family are in memory that is not known here.
    pub fn ask(&self, family: u64) {
        // It ends with the process only.
        let _ = self.asks.send(Ask::Find(family));
    }

    /// That memory, by its inodes, is found anew.
    pub fn forget(&self, inodes: Vec<u64>) {
        if !inodes.is_empty() {
            let _ = self.asks.send(Ask::Forget(inodes));
        }
    }

    /// What was found since.
    pub fn news(&self) -> impl Iterator<Item = News> + '_ {
        self.news.try_iter()
    }

    /// The same, waiting for it a little.
    pub fn wait(&self) -> Option<News> {
        self.news.recv_timeout(Duration::from_secs(1)).ok()
    }
}

/// The file that it executes; none where that may not be seen.
fn exe(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// A process that was looked at, and has no family (yet), or may not be looked into.
struct Other {
    exe: PathBuf,
    /// When it is looked at again, unless it was looked at so late already that it is what it is.
    next: Instant,
    delay: Duration,
    /// It has the shim, so it may have connections any time.
    shimmed: bool,
}

impl Other {
    fn new(exe: PathBuf) -> Other {
        Other { exe, next: Instant::now(), delay: Duration::from_millis(20), shimmed: false }
    }
}

#[derive(Default)]
struct Walker {
    opened: HashMap<u32, Opened>,
    denied: HashMap<u32, String>,
    /// Those with a family.
    processes: HashMap<u32, Process>,
    others: HashMap<u32, Other>,
    versions: HashMap<u64, Option<String>>,
    families: HashSet<u64>,
    /// The families that have them.
    arenas: HashMap<u64, HashSet<u64>>,
    /// A walk was made.
    walked: bool,
}

impl Walker {
    fn work(mut self, asked: &Receiver<Ask>, tell: &Sender<News>) {
        let (mut next, mut soonest) = (Instant::now(), Instant::now());
        loop {
            let soon = match asked.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(ask) => {
                    // Each once, however often it was asked for meanwhile.
                    let mut families = HashSet::new();
                    for ask in std::iter::once(ask).chain(asked.try_iter()) {
                        match ask {
                            Ask::Find(family) => {
                                families.insert(family);
                            }
                            Ask::Forget(inodes) => {
                                inodes.iter().for_each(|inode| drop(self.arenas.remove(inode)));
                            }
                        }
                    }
                    let mut found = Ok(families.is_empty());
                    for family in families {
                        found = found.and_then(|any| Ok(self.find_arenas(family, tell)? || any));
                    }
                    // The other side's process may have it, and be new.
                    found.map(|any| !any && Instant::now() >= soonest)
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => Ok(true),
            };
            let began = Instant::now();
            match soon.and_then(|soon| if soon { self.walk(tell).map(|()| true) } else { Ok(false) }) {
                Err(_) => return,
                Ok(false) => {}
                Ok(true) => {
                    let rest = began.elapsed() * REST;
                    (next, soonest) = (Instant::now() + EVERY.max(rest), Instant::now() + SOON.max(rest));
                }
            }
        }
    }

    /// Looks at what is new among processes; of the others it asks no more than needed.
    fn walk(&mut self, tell: &Sender<News>) -> Result<(), mpsc::SendError<News>> {
        let me = std::process::id();
        let pids: HashSet<u32> = match processes::numbers() {
            Ok(pids) => pids.into_iter().filter(|&pid| pid != me).collect(),
            // Another time: nobody has ended because of this.
            Err(_) => return Ok(()),
        };
        let (others, processes) = (&mut self.others, &self.processes);
        others.retain(|pid, _| pids.contains(pid));
        self.opened.retain(|pid, opened| {
            let executes = || processes.get(pid).is_none_or(|process| process.file == exe(*pid));
            let stays = pids.contains(pid) && opened.is_the_same() && executes();
            if !stays {
                // What it executes now is looked at as that of a new one.
                others.remove(pid);
            }
            stays
        });
        let opened = &self.opened;
        self.processes.retain(|pid, _| opened.contains_key(pid));
        let stays = |pid: &u32| others.get(pid).is_some_and(|other| other.exe == exe(*pid));
        self.denied.retain(|pid, _| stays(pid));
        for pid in pids {
            if !self.processes.contains_key(&pid)
                && !self.denied.contains_key(&pid)
                && self.is_to_be_looked_at(pid)
            {
                self.look(pid, tell)?;
            }
        }
        // One whose last process is not seen any more is told anew if another one has it.
        let families: HashSet<u64> = self.processes.values().filter_map(|process| process.family).collect();
        self.families.retain(|family| families.contains(family));
        if !std::mem::replace(&mut self.walked, true) {
            // Later on channels are new, and their memory is asked for; these are there, and followed from now on.
            for family in families {
                self.find_arenas(family, tell)?;
            }
        }
        tell.send(News::Walked(self.processes.values().cloned().collect(), self.denied.clone()))
    }

    fn is_to_be_looked_at(&mut self, pid: u32) -> bool {
        let exe = exe(pid);
        let other = self.others.entry(pid).or_insert_with(|| Other::new(PathBuf::new()));
        if other.exe != exe {
            *other = Other::new(exe);
        }
        if other.shimmed {
            return true;
        }
        // Behind the above: one that is new is due.
        let now = Instant::now();
        let due = now >= other.next && other.delay <= YOUNG;
        if due {
            (other.next, other.delay) = (now + other.delay, other.delay * 4);
        }
        due
    }

    fn look(&mut self, pid: u32, tell: &Sender<News>) -> Result<(), mpsc::SendError<News>> {
        let Some(process) = Process::look(pid, &mut self.versions) else { return Ok(()) };
        let Some(family) = process.family else {
            self.others.entry(pid).and_modify(|other| other.shimmed = !process.disabled);
            return Ok(());
        };
        match Opened::new(pid) {
            Ok(opened) => drop(self.opened.insert(pid, opened)),
            Err(Denied::Why(why)) => {
                self.denied.insert(pid, why);
                return Ok(());
            }
            Err(Denied::Gone) => return Ok(()),
        }
        self.processes.insert(pid, process);
        if !self.families.contains(&family) {
            let name = family::NAME.to_string_lossy();
            let memories = self.opened[&pid].memories(&name, 1, &|inode| inode != family);
            if memories.exhausted {
                tell.send(News::Exhausted)?;
            }
            for (inode, file) in memories.found {
                if let Some(view) = View::open(&file) {
                    self.families.insert(inode);
                    tell.send(News::Family(inode, view))?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is memory of that family's channels that was not known.
    fn find_arenas(&mut self, family: u64, tell: &Sender<News>) -> Result<bool, mpsc::SendError<News>> {
        let mut any = false;
        for process in self.processes.values().filter(|process| process.family == Some(family)) {
            let Some(opened) = self.opened.get(&process.pid) else { continue };
            let has = self.arenas.values().filter(|families| families.contains(&family)).count();
            let seen = RefCell::new(HashSet::new());
            let is_known = |inode| {
                let known = self.arenas.contains_key(&inode);
                if known {
                    seen.borrow_mut().insert(inode);
                }
                known
            };
            // A process with so many has too many; the rest are found when those are forgotten.
            let memories = opened.memories(ARENA, (2 * KEPT).saturating_sub(has), &is_known);
            if memories.exhausted {
                tell.send(News::Exhausted)?;
            }
            for inode in seen.into_inner() {
                if self.arenas.get_mut(&inode).is_some_and(|families| families.insert(family)) {
                    any = true;
                    tell.send(News::Shared(family, inode))?;
                }
            }
            for (inode, file) in memories.found {
                any = true;
                self.arenas.insert(inode, HashSet::from([family]));
                tell.send(News::Arena(family, file))?;
            }
        }
        Ok(any)
    }
}

#[cfg(test)]
mod tests;
