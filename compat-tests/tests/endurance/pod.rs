//! Two containers of a pod: they share the network and nothing else. Each is root in a user namespace of its own, has its own
//! processes and mounts, 64 KiB in /dev/shm, and not one capability.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, needed, TempDir};
use compat_tests::{programs, Combo, Job};

use crate::product;

/// Mounts what a container has, gives up what root could do, and says so before it becomes the program.
const INSIDE: &str = "
    mount -t tmpfs -o size=64k shm /dev/shm && mount -t proc proc /proc || exit 90
    exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all sh -c '
        grep -q \"^CapEff:[[:space:]]*0*$\" /proc/self/status || exit 91
        [ \"$(stat -f -c %b /dev/shm)\" = 16 ] || exit 92
        exec \"$@\"' sh \"$@\"";

/// The command as a container.
fn contained(command: &Command) -> Command {
    let mut inside = Command::new(needed("unshare", "util-linux"));
    inside.args([
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--ipc",
        "--uts",
    ]);
    inside.args(["sh", "-c", INSIDE, "sh"]).arg(command.get_program()).args(command.get_args()).env_clear();
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside
}

/// Whether such namespaces can be had; says so if not.
fn possible() -> bool {
    let tried = contained(&Command::new("/bin/true")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output();
    let tried = tried.expect("unshare, of Debian's util-linux");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).trim().replace('\n', "; ");
        product::skip(&format!("pod: no user namespaces: {why}"));
    }
    tried.status.success()
}

fn side(role: &str, program: &Path, folder: &TempDir, inside: bool) -> Job {
    let mut command = Combo::shimmed().server_command(program, folder.path());
    command.arg(role).arg(folder.file("port")).args(["hold", "1000"]);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Job::start(role, if inside { contained(&command) } else { command }, folder.path())
}

#[test]
fn containers_of_a_pod_talk_over_channels() {
    let _turn = product::alone();
    if !possible() {
        return;
    }
    for (server_inside, client_inside) in [(true, true), (true, false), (false, true)] {
        let folder = TempDir::new();
        let program = programs::c("ping_pong");
        let mut server = side("server", &program, &folder, server_inside);
        let mut client = side("client", &program, &folder, client_inside);
        let [done, told] = ["port.server-done", "port.client-done"].map(|name| folder.file(name));
        await_that("the exchanges", Duration::from_secs(20), || {
            (done.exists() && told.exists()) || server.ended().is_some() || client.ended().is_some()
        });
        let port = fs::read_to_string(folder.file("port")).unwrap_or_default();
        let port = port.split_whitespace().nth(1).and_then(|port| port.parse().ok()).unwrap_or_default();
        let channels = product::channel_ends(port);
        product::mark(&folder, "looked");
        let deadline = Instant::now() + Duration::from_secs(10);
        for ended in [client.finish(deadline), server.finish(deadline)] {
            assert!(ended.ok(), "{}", ended.text());
        }
        assert_eq!(channels, 2, "inside: server {server_inside}, client {client_inside}: ends of channels");
    }
}
