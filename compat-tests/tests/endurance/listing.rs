//! `dp ls` says what is so.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::TempDir;
use compat_tests::{programs, Combo, Job};

use crate::product::{self, Family};

const SCRIPT: &str = "exchanges.py";

/// One side of the script, or what `wrapped` makes of its command.
fn side(shim: bool, arguments: &[&str], folder: &Path, wrapped: &[&str]) -> Job {
    let combo = if shim { Combo::shimmed() } else { Combo::native() };
    let script = programs::python(SCRIPT);
    let python = Path::new("/usr/bin/python3");
    let first = wrapped.first().map_or(python, Path::new);
    let mut command: Command = combo.server_command(first, folder);
    if let Some((_, rest)) = wrapped.split_first() {
        command.args(rest).arg(python);
    }
    command.arg(script).arg(arguments[0]).arg(folder.join("port")).args(&arguments[1..]);
    Job::start(&format!("{}-{shim}", arguments.join("-")), command, folder)
}

/// What `dp ls` says of the process, when `so` holds of it.
fn when(pid: i32, so: impl Fn(&Family) -> bool) -> Family {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let last = product::listed(pid);
        match last {
            Some(family) if so(&family) => return family,
            _ if Instant::now() > deadline => panic!("dp ls says of {pid}: {last:?}"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn said(job: &Job) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !job.transcript().contains("exchanged") {
        assert!(Instant::now() < deadline, "{}", job.doing());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_without_connections_is_listed_with_the_version_of_its_shim() {
    let folder = TempDir::new();
    let start = |disabled: bool| {
        let mut command = Combo::shimmed().server_command(Path::new("/usr/bin/sleep"), folder.path());
        command.arg("60");
        if disabled {
            command.env("DP_DISABLE", "1");
        }
        Job::start(&format!("sleep-{disabled}"), command, folder.path())
    };
    let (idle, disabled) = (start(false), start(true));
    let family = when(idle.pid().as_raw(), |_| true);
    assert_eq!((family.state.as_str(), family.shim.as_deref()), ("idle", Some(env!("CARGO_PKG_VERSION"))));
    assert_eq!((family.connections.len(), family.channels), (0, 0));
    assert_eq!(when(disabled.pid().as_raw(), |_| true).state, "disabled");
}

/// Both ends of a connection, in one process.
const ITSELF: &str = "import socket, time
listener = socket.create_server(('127.0.0.1', 0))
a = socket.create_connection(listener.getsockname())
b = listener.accept()[0]
for _ in range(20):
    a.sendall(b'x'); b.recv(1); b.sendall(b'y'); a.recv(1)
print('exchanged', flush=True)
time.sleep(60)";

#[test]
fn a_connection_of_a_program_with_itself_is_one_channel() {
    let folder = TempDir::new();
    let mut command = Combo::shimmed().server_command(Path::new("/usr/bin/python3"), folder.path());
    command.args(["-c", ITSELF]);
    let job = Job::start("itself", command, folder.path());
    said(&job);
    let family = when(job.pid().as_raw(), |family| family.connections.len() == 2);
    assert!(family.connections.iter().all(|c| c.tx_ring_bytes.is_some()), "{family:?}");
    assert_eq!(family.channels, 1, "{family:?}");
}

#[test]
fn a_peer_without_the_shim_is_told_after_the_first_exchange() {
    let folder = TempDir::new();
    let server = side(true, &["server"], folder.path(), &[]);
    let client = side(false, &["client", "1"], folder.path(), &[]);
    said(&client);
    let family = when(server.pid().as_raw(), |family| !family.connections.is_empty());
    assert_eq!(family.connections[0].reason.as_deref(), Some("no-offer"), "{family:?}");
    drop((client, server));
    let folder = TempDir::new();
    let _server = side(false, &["server"], folder.path(), &[]);
    let client = side(true, &["client", "1"], folder.path(), &[]);
    said(&client);
    let family = when(client.pid().as_raw(), |family| !family.connections.is_empty());
    assert_eq!(family.connections[0].reason.as_deref(), Some("no-door"), "{family:?}");
    assert!(!family.connections[0].local.ends_with(":0"), "{family:?}");
}

#[test]
fn a_peer_with_the_shim_is_not_taken_for_one_without() {
    let folder = TempDir::new();
    let server = side(true, &["server"], folder.path(), &[]);
    let client = side(true, &["client", "1"], folder.path(), &[]);
    said(&client);
    for job in [&server, &client] {
        let family = when(job.pid().as_raw(), |family| !family.connections.is_empty());
        assert_eq!(family.connections[0].reason, None, "{family:?}");
        assert_eq!(family.on_tcp.values().sum::<u64>(), 0, "{family:?}");
    }
}

#[test]
fn a_process_in_a_pid_namespace_has_its_number_out_here() {
    let folder = TempDir::new();
    let server = side(true, &["server"], folder.path(), &[]);
    let Some(wrapper) = product::pid_namespace("listing") else { return };
    let client = side(true, &["client", "200"], folder.path(), &wrapper);
    said(&client);
    let children = format!("/proc/{0}/task/{0}/children", client.pid());
    let children = std::fs::read_to_string(children).expect("the children of unshare");
    let child: i32 = children.split_whitespace().next().and_then(|n| n.parse().ok()).expect("one of them");
    let family = when(child, |family| family.channels == 1);
    assert_eq!(family.connections.iter().map(|c| c.pid).collect::<Vec<_>>(), [child], "{family:?}");
    // Its entry goes with it, though nobody out here can ask for the number it had inside.
    drop(client);
    when(server.pid().as_raw(), |family| family.connections.is_empty());
    assert!(product::listed(child).is_none());
}

#[test]
fn where_af_unix_or_af_netlink_is_forbidden_that_is_said() {
    let launcher = programs::python("no_unix.py").display().to_string();
    let without = |which: &'static [&'static str]| [&["/usr/bin/python3", launcher.as_str()], which].concat();
    for (which, server_may, client_may) in
        [(&[][..], true, false), (&[], false, true), (&["netlink"], true, false)]
    {
        let folder = TempDir::new();
        let wrapped = |may: bool| if may { vec![] } else { without(which) };
        let server = side(true, &["server"], folder.path(), &wrapped(server_may));
        let client = side(true, &["client", "200"], folder.path(), &wrapped(client_may));
        said(&client);
        let one = if server_may { &client } else { &server };
        let family = when(one.pid().as_raw(), |family| !family.on_tcp.is_empty());
        assert_eq!(family.on_tcp.get("no-unix"), Some(&1), "{family:?}");
        assert_eq!(family.connections[0].reason.as_deref(), Some("no-unix"), "{family:?}");
    }
}
