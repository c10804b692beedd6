//! Strangers at the door, and a partner that destroys what it shares.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, TempDir};
use compat_tests::{programs, Combo, Job};

use crate::product;

/// A server that goes on whatever its clients do.
struct Crowd {
    server: Job,
    folder: TempDir,
    clients: u32,
    /// Calls before a connection is offered.
    after: u32,
    /// How long clients rest after their first exchanges, ms.
    rest: u32,
}

impl Crowd {
    fn new(mode: &str) -> Self {
        Self::on(TempDir::new(), 0, mode, 3)
    }

    fn on(folder: TempDir, port: u16, mode: &str, after: u32) -> Self {
        let crowd = programs::c("crowd");
        // It outlives all rounds of a long run; the test ends it.
        let settings = [
            ("COMPAT_ALARM", "3600".to_string()),
            ("COMPAT_PORT", port.to_string()),
            ("DP_AFTER", after.to_string()),
        ];
        let server = product::start(&Combo::shimmed(), &crowd, "server", folder.path(), &[mode], &settings);
        await_that("the server listens", Duration::from_secs(10), || folder.file("port").exists());
        Self { server, folder, clients: 0, after, rest: 0 }
    }

    fn marked(&self, name: &str) -> PathBuf {
        self.folder.file(&format!("port.{name}"))
    }

    fn mark(&self, name: &str) {
        fs::write(self.folder.file("port.new"), "1\n").expect("the mark");
        fs::rename(self.folder.file("port.new"), self.marked(name)).expect("the mark");
    }

    /// Starts an honest client.
    fn welcome(&mut self, exchanges: u32) -> Honest {
        self.clients += 1;
        let number = self.clients;
        let arguments = ["", &exchanges.to_string(), &number.to_string(), &self.rest.to_string()];
        let job = product::start(
            &Combo::shimmed(),
            &programs::c("crowd"),
            "client",
            self.folder.path(),
            &arguments,
            &[("DP_AFTER", self.after.to_string())],
        );
        Honest { job, number }
    }

    /// Ends it: whether it was a channel.
    fn see_off(&mut self, mut honest: Honest) -> Result<bool, String> {
        let (done, deadline) =
            (self.marked(&format!("done-{}", honest.number)), Instant::now() + Duration::from_secs(10));
        while !done.exists() && honest.job.ended().is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(2));
        }
        let doing = if done.exists() { String::new() } else { self.server.doing() };
        let channel = product::channels(honest.job.pid().as_raw()) > 0;
        self.mark(&format!("looked-{}", honest.number));
        let ended = honest.job.finish(Instant::now() + Duration::from_secs(3));
        if ended.ok() && ended.transcript == "fine\n" {
            return Ok(channel);
        }
        Err(format!("an honest client: {}\nthe server was:\n{doing}", ended.text()))
    }

    /// Whether it lives, answers a new client by a channel, and rests when nobody wants anything.
    fn check(&mut self, wrong: &mut Vec<String>, when: &str, with_channel: bool) {
        if let Some(status) = self.server.ended() {
            wrong.push(format!("{when}: the server ended: {status}"));
            return;
        }
        // A short connection can be over before the server's turn comes: on a busy machine one may miss.
        for attempt in 1..=3 {
            let honest = self.welcome(300);
            match self.see_off(honest) {
                Ok(channel) if channel || !with_channel => return,
                Ok(_) if attempt < 3 => {}
                Ok(_) => wrong.push(format!(
                    "{when}: an honest client stays on TCP; the server's reasons: {:?}",
                    product::family(self.server.pid().as_raw()).map(|family| family.on_tcp)
                )),
                Err(what) => {
                    wrong.push(format!("{when}: {what}"));
                    return;
                }
            }
        }
    }

    fn check_rest(&mut self, wrong: &mut Vec<String>, when: &str) {
        let pid = self.server.pid().as_raw();
        sleep(Duration::from_millis(200));
        let before = product::cpu(pid);
        sleep(Duration::from_millis(500));
        let used = product::cpu(pid).saturating_sub(before);
        if used > Duration::from_millis(200) {
            wrong
                .push(format!("{when}: the idle server used {used:?} in 500 ms:\n{}", product::threads(pid)));
        }
    }

    /// Bytes of addresses in use.
    fn addresses(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.server.pid())).unwrap_or_default();
        let pages: Option<u64> = text.split(' ').next().and_then(|pages| pages.parse().ok());
        pages.unwrap_or(0) * 4096
    }

    fn descriptors(&self) -> usize {
        product::descriptors(Path::new(&format!("/proc/{}", self.server.pid()))).len()
    }
}

struct Honest {
    job: Job,
    number: u32,
}

const SINGLE: [&str; 13] = [
    "garbage",
    "magic",
    "version",
    "no_fd",
    "pipe",
    "unsealed",
    "tiny",
    "wrong_size",
    "many",
    "silent",
    "huge",
    "proper",
    "lingers",
];

/// Descriptors that strangers of one user can make a server keep: arenas that have proven nothing.
const KEPT: usize = 4;
/// Addresses of a client's arena, about; strangers get none.
const ARENA: u64 = 400 << 20;

#[test]
fn strangers_at_the_door_do_no_harm() {
    let _turn = product::alone();
    let mut wrong = Vec::new();
    let mut crowd = Crowd::new("threads");
    crowd.check(&mut wrong, "at the start", true);
    let before = crowd.descriptors();
    let addresses = crowd.addresses();
    for mode in SINGLE.into_iter().chain(["flood"]) {
        for name in ["knocked", "over"] {
            let _ = fs::remove_file(crowd.marked(name));
        }
        let knock = programs::c("knock");
        let mut stranger =
            product::start(&Combo::native(), &knock, "client", crowd.folder.path(), &[mode], &[]);
        // A full backlog must not keep honest clients from TCP; the speed-up it may cost them as long as it lasts.
        crowd.check(&mut wrong, &format!("{mode}, under way"), false);
        let knocked = crowd.marked("knocked");
        await_that("knocking", Duration::from_secs(10), || knocked.exists() || stranger.ended().is_some());
        crowd.check(&mut wrong, &format!("{mode}, knocked"), mode != "flood");
        crowd.mark("over");
        let ended = stranger.finish(Instant::now() + Duration::from_secs(5));
        if !ended.ok() {
            wrong.push(format!("{mode}: the stranger itself: {}", ended.text()));
        }
        // The server takes sixteen at a time out of the backlog of 128.
        for _ in 0..10 {
            crowd.check(&mut wrong, &format!("{mode}, clearing"), false);
            if mode != "flood" {
                break;
            }
        }
        sleep(Duration::from_millis(1100)); // clients remember a missing door for a second
        crowd.check(&mut wrong, &format!("{mode}, over"), true);
        let after = crowd.descriptors();
        if after > before + 2 + KEPT {
            wrong.push(format!("{mode}: the server had {before} descriptors and has {after}"));
        }
        if crowd.server.ended().is_some() {
            break;
        }
        let clients = u64::from(crowd.clients);
        let grown = crowd.addresses().saturating_sub(addresses);
        if grown > (clients + 1) * ARENA {
            wrong.push(format!("{mode}: {grown} bytes of addresses for {clients} clients"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A server that closed its port keeps what its clients gave it.
#[test]
fn a_former_server_learns_nothing_of_the_next_one() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let program = programs::c("successor");
    let start = |role: &str, arguments: &[&str]| {
        product::start(&Combo::shimmed(), &program, role, folder.path(), arguments, &[])
    };
    let former = start("server", &["first"]);
    let next = start("server", &["second"]);
    let mut client = start("client", &[""]);
    let done = folder.file("port.done");
    await_that("the exchanges", Duration::from_secs(20), || done.exists() || client.ended().is_some());
    let channels = [next.pid(), client.pid()].map(|pid| product::channels(pid.as_raw()));
    product::mark(&folder, "over");
    let ended = [former, next, client].map(|job| job.finish(Instant::now() + Duration::from_secs(10)));
    let said = ended.each_ref().map(|ended| ended.transcript.as_str());
    assert_eq!(said, ["read 0 secrets\n", "served\n", "fine\n"]);
    assert_eq!(channels, [1, 2], "channels of the next server, and of its client");
}

/// Somebody with doors of his own gives the server, as his, the memory that a client gave to him. Both would prove to
/// each other that they hold the connection, and he would have the memory.
#[test]
fn somebody_between_client_and_server_reads_nothing() {
    let _turn = product::alone();
    let (folder, port) = (TempDir::new(), free_port());
    let arguments = ["between", &port.to_string()];
    let between =
        product::start(&Combo::native(), &programs::c("knock"), "client", folder.path(), &arguments, &[]);
    let squatting = folder.file("port.squatting");
    await_that("the doors are taken", Duration::from_secs(10), || squatting.exists());
    let mut crowd = Crowd::on(folder, port, "threads", 3);
    let mut wrong = Vec::new();
    crowd.check(&mut wrong, "with somebody between", true);
    crowd.mark("over");
    let ended = between.finish(Instant::now() + Duration::from_secs(10));
    assert_eq!(ended.transcript, "given memory, read 0 bytes\n", "{}", ended.text());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Which arenas a process has mapped, by their inodes.
fn arenas_of(pid: i32) -> BTreeSet<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let lines = maps.lines().filter(|line| line.contains("dp-arena"));
    lines.filter_map(|line| line.split_whitespace().nth(4)).map(String::from).collect()
}

/// Somebody offers, in memory of his own, connections that others have, and says that he has proven it.
#[test]
fn a_liar_about_whose_connection_it_is_is_found_out() {
    let _turn = product::alone();
    let mut wrong = Vec::new();
    let (folder, port) = (TempDir::new(), free_port());
    // He needs a moment until he sees a connection.
    let mut crowd = Crowd::on(folder, port, "threads", 200);
    crowd.rest = 20;
    let arguments = ["lie", &port.to_string()];
    let knock = programs::c("knock");
    let liar = product::start(&Combo::native(), &knock, "client", crowd.folder.path(), &arguments, &[]);
    let knocked = crowd.marked("knocked");
    await_that("the hello", Duration::from_secs(10), || knocked.exists());
    // It takes some until he was quick enough often enough, on a busy machine more.
    let challenged = crowd.marked("challenged");
    let deadline = Instant::now() + Duration::from_secs(45);
    while Instant::now() < deadline {
        crowd.check(&mut wrong, "with a liar", true);
        if challenged.exists() || !wrong.is_empty() {
            break;
        }
    }
    let [his, mapped] = [liar.pid(), crowd.server.pid()].map(|pid| arenas_of(pid.as_raw()));
    assert_eq!((his.len(), mapped.intersection(&his).count()), (1, 0), "the liar's arena, and mapped");
    crowd.mark("over");
    let ended = liar.finish(Instant::now() + Duration::from_secs(10));
    assert_eq!(ended.transcript, "challenged, taken 0 times\n", "{}", ended.text());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As a child of an earlier server's does, that still has its door.
#[test]
fn a_server_is_found_whose_door_has_not_the_first_name() {
    let _turn = product::alone();
    let mut wrong = Vec::new();
    for gone in [false, true] {
        let (folder, port) = (TempDir::new(), free_port());
        let arguments = ["ahead", &port.to_string()];
        let knock = programs::c("knock");
        let ahead = product::start(&Combo::native(), &knock, "client", folder.path(), &arguments, &[]);
        let squatting = folder.file("port.squatting");
        await_that("the door's first name is taken", Duration::from_secs(10), || squatting.exists());
        let mut crowd = Crowd::on(folder, port, "threads", 3);
        if gone {
            drop(ahead);
            crowd.check(&mut wrong, "free again", true);
        } else {
            crowd.check(&mut wrong, "taken by somebody who lets nobody in", true);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn scribblers_harm_only_themselves(mode: &str) {
    let _turn = product::alone();
    let mut wrong = Vec::new();
    let mut crowd = Crowd::new(mode);
    crowd.check(&mut wrong, "at the start", true);
    let first = std::env::var("DP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let rounds = if product::long() { 60 } else { 9 };
    let mut crashes = 0;
    for seed in first..first + rounds {
        for name in ["scribbling", "scribbled", "over"] {
            let _ = fs::remove_file(crowd.marked(name));
        }
        let what = ["everywhere", "the rings", "the control lines"][seed as usize % 3];
        let name = format!("{mode}, seed {seed}, {what}");
        let arguments = ["", "300", &seed.to_string(), &(seed % 3).to_string()];
        let scribble = programs::c("scribble");
        let folder = crowd.folder.path();
        let mut scribbler = product::start(&Combo::shimmed(), &scribble, "client", folder, &arguments, &[]);
        let scribbled = crowd.marked("scribbled");
        let beside = crowd.welcome(6000);
        let deadline = Instant::now() + Duration::from_secs(10);
        // It may hang or crash: only itself.
        while !scribbled.exists() && scribbler.ended().is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(2));
        }
        crashes += u32::from(!scribbled.exists());
        match crowd.see_off(beside) {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("{name}: the client beside it got no channel")),
            Err(error) => wrong.push(format!("{name}: beside it, {error}")),
        }
        crowd.check_rest(&mut wrong, &format!("{name}, the scribbler still there"));
        crowd.check(&mut wrong, &format!("{name}, the scribbler still there"), true);
        crowd.mark("over");
        scribbler.finish(Instant::now() + Duration::from_secs(1));
        crowd.check(&mut wrong, &format!("{name}, over"), true);
        crowd.check_rest(&mut wrong, &format!("{name}, over"));
        if !wrong.is_empty() {
            break;
        }
    }
    println!("{crashes} of {rounds} scribblers hung or crashed themselves");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_server_with_threads_survives_partners_that_destroy_shared_memory() {
    scribblers_harm_only_themselves("threads");
}

#[test]
fn a_server_with_one_loop_survives_partners_that_destroy_shared_memory() {
    scribblers_harm_only_themselves("epoll");
}
