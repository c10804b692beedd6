//! Server and client of different users. Only root can try it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, needed, TempDir};
use compat_tests::{programs, Combo, Ended, Job};

use crate::product;

const ROOT: u32 = 0;
const ONE: u32 = 5;
const OTHER: u32 = 3;
const NOBODY: u32 = 65534;

/// A folder that all users may write to, with the program and the shim in it.
struct Open {
    folder: TempDir,
}

impl Open {
    fn new() -> Self {
        let folder = TempDir::new();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("our folder");
        Self { folder }
    }

    fn command(&self, uid: u32, role: &str, program: &Path, shimmed: bool) -> Command {
        let here = |from: &Path| {
            let to = self.folder.file(&from.file_name().unwrap_or_default().to_string_lossy());
            if !to.exists() {
                fs::copy(from, &to).expect("a copy for all users");
                fs::set_permissions(&to, Permissions::from_mode(0o755)).expect("our file");
            }
            to
        };
        let setpriv = needed("setpriv", "util-linux");
        let combo = if shimmed { Combo::shimmed() } else { Combo::native() };
        let mut command = combo.server_command(&setpriv, self.folder.path());
        let preload = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
        if let Some(shim) = preload.map(|path| here(Path::new(path))) {
            command.env("LD_PRELOAD", shim);
        }
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}")).arg("--clear-groups");
        command.arg(here(program)).arg(role).arg(self.folder.file("port"));
        command
    }

    fn mark(&self, name: &str) {
        product::mark(&self.folder, name);
    }
}

/// Whether other users can be played; says so if not.
pub fn root() -> bool {
    if fs::metadata("/proc/self").is_ok_and(|data| data.uid() == ROOT) {
        return true;
    }
    product::skip("users: different users need root");
    false
}

/// The command in namespaces of its own but for the network: another container of the same pod.
fn contained(command: &Command) -> Command {
    let mut inside = Command::new(needed("unshare", "util-linux"));
    inside.args(["--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts"]);
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        inside.current_dir(folder);
    }
    inside
}

/// Exchanges between two users: both transcripts, both ends' channels, and the reasons for staying on TCP.
fn between(server: u32, client: u32, shimmed: bool) -> ([Ended; 2], [u64; 2], String) {
    let open = Open::new();
    let program = programs::c("ping_pong");
    let start = |uid, role: &str| {
        let mut command = open.command(uid, role, &program, shimmed);
        command.args(["hold", "1000"]);
        Job::start(role, command, open.folder.path())
    };
    let (mut server, mut client) = (start(server, "server"), start(client, "client"));
    let [done, told] = ["port.server-done", "port.client-done"].map(|name| open.folder.file(name));
    await_that("the exchanges", Duration::from_secs(20), || {
        (done.exists() && told.exists()) || server.ended().is_some() || client.ended().is_some()
    });
    let pids = [server.pid().as_raw(), client.pid().as_raw()];
    let channels = pids.map(product::channels);
    let reasons = format!("{:?}", pids.map(|pid| product::family(pid).map(|family| family.on_tcp)));
    open.mark("looked");
    let deadline = Instant::now() + Duration::from_secs(10);
    let client = client.finish(deadline);
    ([server.finish(deadline), client], channels, reasons)
}

#[test]
fn users_talk_to_each_other_over_channels() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let (expected, _, _) = between(ROOT, ROOT, false);
    for (server, client, channel) in [
        (ONE, ROOT, true),
        (ONE, OTHER, true),
        (ONE, ONE, true),
        (ROOT, OTHER, true),
        (OTHER, ONE, true),
        (NOBODY, ONE, true),
        (ONE, NOBODY, true),
        (NOBODY, ROOT, true),
    ] {
        let (got, channels, reasons) = between(server, client, true);
        for (expected, got) in expected.iter().zip(&got) {
            let same = (&got.status, &got.transcript) == (&expected.status, &expected.transcript);
            assert!(same, "server {server}, client {client}: {}", got.text());
        }
        let both = u64::from(channel);
        assert_eq!(channels, [both, both], "server {server}, client {client}: channels; on TCP: {reasons}");
        assert!(channel || !reasons.contains("[Some({}), Some({})]"), "no reason: {reasons}");
    }
}

const TURNS: u64 = 400;

/// How many bytes a client got over TCP that took turns with its server, and slept whenever it was answered: all of them bells.
fn bells(mode: &str, server: u32, client: u32, contain: bool) -> u64 {
    let open = Open::new();
    let start = |uid, role: &str, contain: bool| {
        let mut command = open.command(uid, role, &programs::c("turns"), true);
        command.args([mode, &TURNS.to_string()]);
        let command = if contain { contained(&command) } else { command };
        Job::start(role, command, open.folder.path())
    };
    let sides = [start(server, "server", contain), start(client, "client", false)];
    let deadline = Instant::now() + Duration::from_secs(20);
    for side in sides {
        let ended = side.finish(deadline);
        assert!(ended.ok(), "server {server}, client {client}: {}", ended.text());
    }
    fs::read_to_string(open.folder.file("port.bells")).expect("the mark").trim().parse().expect("a number")
}

/// By an eventfd where its process may stop ours by a signal, else by a byte over a socket pair; by bells on TCP nowhere, but
/// for the first few.
#[test]
fn a_sleeper_is_woken_by_an_event_whoever_it_is() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    for (server, client, contain) in [
        (ONE, ONE, false),
        (ROOT, ROOT, false),
        (ONE, OTHER, false),
        (ROOT, ONE, false),
        (ONE, ROOT, false),
        (ONE, ONE, true),
        (ROOT, ROOT, true),
        (OTHER, ONE, true),
    ] {
        for mode in ["", "poll", "closed"] {
            let bells = bells(mode, server, client, contain);
            let told = format!("{mode} server {server}, client {client}, container {contain}: {bells} bells");
            assert!(bells < TURNS / 4, "{told}");
        }
    }
}

/// Somebody has taken all names that a door may have, or the first few, behind which the server has its own.
#[test]
fn a_squatted_door_costs_only_the_channel() {
    const ALL: &str = "16";
    let _turn = product::alone();
    if !root() {
        return;
    }
    // The same user, or user 0, is nobody's word either: it may be in another container.
    for (thief, client, container, names) in [
        (OTHER, ROOT, false, ALL),
        (OTHER, 2, false, ALL),
        (ROOT, ROOT, false, ALL),
        (2, 2, false, "4"),
        (ROOT, ROOT, true, ALL),
        (ONE, ONE, true, ALL),
    ] {
        let open = Open::new();
        let port = free_port();
        let mut command = open.command(thief, "client", &programs::c("knock"), false);
        if container {
            command = contained(&command);
        }
        command.args(["squat", &port.to_string(), names]);
        let squatter = Job::start("squatter", command, open.folder.path());
        let squatting = open.folder.file("port.squatting");
        await_that("the squatter", Duration::from_secs(10), || squatting.exists());
        let mut command = open.command(ONE, "server", &programs::c("crowd"), true);
        command.env("COMPAT_PORT", port.to_string()).arg("threads");
        let mut server = Job::start("server", command, open.folder.path());
        let mut command = open.command(client, "client", &programs::c("crowd"), true);
        command.args(["", "2000", "1"]);
        let mut honest = Job::start("client", command, open.folder.path());
        let done = open.folder.file("port.done-1");
        await_that("the exchanges", Duration::from_secs(20), || done.exists() || honest.ended().is_some());
        let reasons = product::family(honest.pid().as_raw()).map(|family| family.on_tcp);
        open.mark("looked-1");
        let ended = honest.finish(Instant::now() + Duration::from_secs(10));
        assert!(ended.ok() && ended.transcript == "fine\n", "client {client}: {}", ended.text());
        assert!(server.ended().is_none(), "client {client}: the server ended");
        open.mark("over");
        let thief = squatter.finish(Instant::now() + Duration::from_secs(10));
        assert_eq!(thief.transcript, "given memory, read 0 bytes\n", "client {client}: {}", thief.text());
        // On a busy machine the thief does not always answer in time.
        let told = |all: &BTreeMap<String, u64>| ["owner", "silent"].iter().any(|why| all.contains_key(*why));
        let as_told = |all: &BTreeMap<String, u64>| if names == ALL { told(all) } else { all.is_empty() };
        assert!(reasons.as_ref().is_some_and(as_told), "client {client}: the reason is another: {reasons:?}");
    }
}

/// Neither sees the number of the other's process, nor the time it began.
#[test]
fn containers_of_one_network_talk_over_channels() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    for (inner_server, inner_client) in [(true, false), (false, true), (true, true)] {
        let open = Open::new();
        let start = |role: &str, inner: bool| {
            let mut command = open.command(ONE, role, &programs::c("ping_pong"), true);
            command.args(["hold", "1000"]);
            let command = if inner { contained(&command) } else { command };
            Job::start(role, command, open.folder.path())
        };
        let (mut server, mut client) = (start("server", inner_server), start("client", inner_client));
        let [done, told] = ["port.server-done", "port.client-done"].map(|name| open.folder.file(name));
        await_that("the exchanges", Duration::from_secs(20), || {
            (done.exists() && told.exists()) || server.ended().is_some() || client.ended().is_some()
        });
        let port = fs::read_to_string(open.folder.file("port")).unwrap_or_default();
        let port = port.split_whitespace().nth(1).and_then(|port| port.parse().ok()).unwrap_or_default();
        let channels = product::channel_ends(port);
        open.mark("looked");
        let deadline = Instant::now() + Duration::from_secs(10);
        for ended in [client.finish(deadline), server.finish(deadline)] {
            assert!(ended.ok(), "{}", ended.text());
        }
        assert_eq!(channels, 2, "inside: server {inner_server}, client {inner_client}: ends of channels");
    }
}
