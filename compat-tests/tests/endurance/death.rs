//! Either side is killed at any moment: the other notices, nothing hangs, nothing stays.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, TempDir};
use compat_tests::{programs, Combo, Job};
use nix::sys::signal::{kill, Signal};

use crate::product::{self, Random};

/// How soon a survivor must know.
const SOON: Duration = Duration::from_secs(2);

struct Round {
    number: u64,
    mode: &'static str,
    port: u16,
    client_dies: bool,
    wait_for_channel: bool,
    delay: Duration,
    chaos: Option<u32>,
    reap_at_once: bool,
}

impl Round {
    fn name(&self) -> String {
        let victim = if self.client_dies { "client" } else { "server" };
        let Round { number, mode, delay, chaos, .. } = self;
        format!("kill {number}: the {victim} of {mode}, {delay:?} later, chaos {chaos:?}")
    }

    /// What went wrong.
    fn run(&self) -> Vec<String> {
        let folder = TempDir::new();
        let combo = Combo { chaos: self.chaos, ..Combo::shimmed() };
        let port = [("COMPAT_PORT", self.port.to_string())];
        let program = programs::c("death");
        let start = |role| product::start(&combo, &program, role, folder.path(), &[self.mode], &port);
        let (mut server, mut client) = (start("server"), start("client"));
        let connected = folder.file("port.connected");
        await_that("four connections", Duration::from_secs(10), || {
            connected.exists() || server.ended().is_some() || client.ended().is_some()
        });
        let mut wrong = Vec::new();
        if self.wait_for_channel && !product::becomes_channel(server.pid().as_raw(), Duration::from_secs(5)) {
            let why = [&server, &client].map(|job| product::family(job.pid().as_raw()));
            wrong.push(format!("no channel within 5 s: {why:?}"));
        }
        sleep(self.delay);
        let memory: Vec<u64> = [&server, &client].map(|job| product::memory_of(&process(job))).concat();
        let pids = [server.pid(), client.pid()];
        let (mut victim, mut survivor) = if self.client_dies { (client, server) } else { (server, client) };
        kill(victim.pid(), Signal::SIGKILL).expect("the victim lives");
        if self.reap_at_once {
            victim.ended_by(Instant::now() + SOON);
        }
        let killed = Instant::now();
        if !survivor.ended_by(killed + SOON) {
            wrong.push(format!("the survivor hangs:\n{}", product::threads(survivor.pid().as_raw())));
        }
        let ended = survivor.finish(killed + SOON * 3);
        if !ended.ok() {
            wrong.push(format!("the survivor: {}", ended.text()));
        }
        drop(victim);
        // The kernel takes its time to clear away a process with many threads.
        let left = || [("memory", product::holders(&memory)), ("doors", product::doors(self.port))];
        let patience = Instant::now() + SOON;
        while left().iter().any(|(_, left)| !left.is_empty()) && Instant::now() < patience {
            sleep(Duration::from_millis(5));
        }
        for (what, left) in left().iter().filter(|(_, left)| !left.is_empty()) {
            wrong.push(format!("{what} left: {left:?}"));
        }
        if pids.iter().any(|pid| product::family(pid.as_raw()).is_some()) {
            wrong.push("dp ls shows dead processes".to_string());
        }
        wrong.into_iter().map(|what| format!("{}: {what}\n", self.name())).collect()
    }
}

fn process(job: &Job) -> PathBuf {
    PathBuf::from(format!("/proc/{}", job.pid()))
}

#[test]
fn a_killed_partner_is_noticed_and_leaves_nothing() {
    let _turn = product::alone();
    let mut random = Random::new();
    let before = product::named_memory();
    let port = free_port();
    let kills = if product::long() { 500 } else { 60 };
    let mut wrong = Vec::new();
    for number in 0..kills {
        let round = Round {
            number,
            mode: ["echo", "stream", "mixed"][number as usize % 3],
            port,
            client_dies: random.below(2) == 0,
            wait_for_channel: random.below(3) > 0,
            delay: Duration::from_micros(random.below(80_000)),
            chaos: (random.below(3) == 0).then(|| 1 + random.below(1000) as u32),
            reap_at_once: random.below(2) == 0,
        };
        wrong.extend(round.run());
        if wrong.len() > 5 {
            break;
        }
    }
    let named = product::named_memory();
    if named.iter().any(|name| !before.contains(name)) {
        wrong.push(format!("/dev/shm had {before:?} and has {named:?}"));
    }
    assert!(wrong.is_empty(), "DP_SEED={}\n{}", random.seed, wrong.concat());
}
