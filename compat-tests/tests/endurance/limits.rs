//! What docs/OPERATIONS.md says of limits: up to them all are channels, and what is beyond has its reason. Those of connections
//! are tried in `footprint.rs`, and those of servers at one address, up to the limit, in `missed.rs`.

use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, TempDir};
use compat_tests::{programs, Combo};

use crate::product;

/// Longest time for many programs to begin and to be used.
const READY: Duration = Duration::from_secs(150);

/// A family's, the first process among them.
const PROCESSES: u64 = 256;

#[test]
fn each_process_of_a_family_has_channels_up_to_the_limit_and_beyond_it_the_reason_is_told() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let start = |role, program, arguments: &[&str]| {
        product::start(&Combo::shimmed(), &programs::c(program), role, folder.path(), arguments, &[])
    };
    let server = start("server", "crowd", &["threads"]);
    let beyond = 20;
    let mut client = start("client", "relatives", &["", &(PROCESSES - 1 + beyond).to_string()]);
    let done = folder.file("port.done");
    await_that("the exchanges", Duration::from_secs(60), || done.exists() || client.ended().is_some());
    let family = product::family(client.pid().as_raw());
    product::mark(&folder, "looked");
    let ended = client.finish(Instant::now() + Duration::from_secs(20));
    assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    let family = family.expect("a family");
    // That of the first process went back to TCP when it was shared with a child that has no place.
    let open = family.connections.iter().filter(|c| c.tx_ring_bytes.is_some()).count() as u64;
    assert_eq!((family.channels, open), (PROCESSES, PROCESSES - 1), "{:?}", family.on_tcp);
    assert_eq!(
        family.on_tcp,
        [("shared".to_owned(), 1), ("slots".to_owned(), beyond)].into(),
        "what is beyond"
    );
    drop(server);
}

/// A process's, at which it listens with a door.
const ADDRESSES: u64 = 64;

#[test]
fn a_server_tells_which_of_its_addresses_have_no_door() {
    let _turn = product::alone();
    let (folder, beyond) = (TempDir::new(), 3);
    let many = (ADDRESSES + beyond).to_string();
    let start = |role| {
        product::start(&Combo::shimmed(), &programs::c("comings"), role, folder.path(), &["all", &many], &[])
    };
    let (server, mut client) = (start("server"), start("client"));
    let done = folder.file("port.done");
    await_that("the exchanges", Duration::from_secs(30), || done.exists() || client.ended().is_some());
    let pids = [&server, &client].map(|job| job.pid().as_raw());
    let families = pids.map(|pid| product::family(pid).expect("a family"));
    let told = pids.map(|pid| product::doctor(&[&pid.to_string()]));
    product::mark(&folder, "looked");
    let ended = client.finish(Instant::now() + Duration::from_secs(20));
    assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    drop(server);
    for (family, word) in families.iter().zip(["slots", "no-door"]) {
        assert_eq!(family.channels, ADDRESSES, "{:?}", family.on_tcp);
        assert_eq!(family.on_tcp, [(word.to_owned(), beyond)].into());
    }
    assert!(told[0].contains(&format!("{beyond} on TCP, slots: ")), "{}", told[0]);
    let by_server =
        format!("other end: {beyond} open with comings ({}), which has them on TCP, slots: ", pids[0]);
    assert!(told[1].contains(&by_server) && told[1].contains("could not have one"), "{}", told[1]);
}

/// Programs that know nothing of each other and listen at one address with a door each.
const PROGRAMS: usize = 16;

#[test]
fn a_program_that_came_last_to_an_address_tells_that_it_has_no_door() {
    let _turn = product::alone();
    let (program, port) = (programs::c("copies"), free_port().to_string());
    let folders: Vec<_> = (0..PROGRAMS + 2).map(|_| TempDir::new()).collect();
    let start = |role: &str, folder: &TempDir| {
        product::start(&Combo::shimmed(), &program, role, folder.path(), &["-", &port, "120", "300"], &[])
    };
    let mut servers = Vec::new();
    for folder in &folders[1..] {
        servers.push(start("server", folder));
        await_that("it listens", Duration::from_secs(10), || folder.file("port.listens").exists());
    }
    let mut client = start("client", &folders[0]);
    let done = folders[0].file("port.done");
    await_that("the exchanges", Duration::from_secs(40), || done.exists() || client.ended().is_some());
    let last = product::family(servers[PROGRAMS].pid().as_raw()).expect("a family");
    let others: u64 = servers[..PROGRAMS].iter().map(|server| product::channels(server.pid().as_raw())).sum();
    product::mark(&folders[0], "looked");
    let client = client.finish(Instant::now() + Duration::from_secs(10));
    assert!(client.ok() && client.transcript == "fine\n", "{}", client.text());
    // The kernel has given it one of seventeen, as chance would have it.
    let its = last.connections.len() as u64;
    assert!(last.channels == 0 && its > 0, "{last:?}");
    assert_eq!(last.on_tcp, [("slots".to_owned(), its)].into());
    assert_eq!(others, 120 - its, "the others have channels");
}

/// Those with which a client program has channels at once.
const SERVERS: u64 = 64;

/// As a proxy does that has more backends than that.
#[test]
fn a_client_has_channels_to_servers_up_to_the_limit_and_to_others_once_some_are_over() {
    let _turn = product::alone();
    let (folder, beyond) = (TempDir::new(), 3);
    let numbers = [SERVERS + beyond, beyond].map(|number| number.to_string());
    let more = [("COMPAT_ALARM", READY.as_secs().to_string())];
    let arguments = ["", &numbers[0], &numbers[1]];
    let mut client = product::start(
        &Combo::shimmed(),
        &programs::c("backends"),
        "client",
        folder.path(),
        &arguments,
        &more,
    );
    let pid = client.pid().as_raw();
    let mut seen = ["done", "again"].map(|name| {
        let done = folder.file(&format!("port.{name}"));
        await_that("the exchanges", READY, || done.exists() || client.ended().is_some());
        let seen = (product::family(pid), product::doctor(&[&pid.to_string()]));
        product::mark(&folder, if name == "done" { "looked" } else { "looked-again" });
        seen
    });
    let ended = client.finish(Instant::now() + Duration::from_secs(20));
    assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    let [full, again] = seen.each_mut().map(|(family, _)| family.take().expect("a family"));
    let open = |family: &product::Family| {
        family.connections.iter().filter(|c| c.tx_ring_bytes.is_some()).count() as u64
    };
    let on_tcp = [("slots".to_owned(), beyond)].into();
    assert_eq!((full.channels, open(&full)), (SERVERS, SERVERS), "{:?}", full.on_tcp);
    assert_eq!(full.on_tcp, on_tcp, "what is beyond");
    assert!(seen[0].1.contains(&format!("{beyond} on TCP, slots: ")), "{}", seen[0].1);
    assert_eq!((again.channels, open(&again)), (SERVERS + beyond, SERVERS), "{:?}", again.on_tcp);
    assert_eq!(again.on_tcp, on_tcp, "none since");
}

/// Those of one user with which a server has channels at once.
const CLIENTS: u64 = 128;

#[test]
fn a_server_has_channels_with_client_programs_of_a_user_up_to_the_limit() {
    let _turn = product::alone();
    let (folder, beyond) = (TempDir::new(), 2);
    let crowd = programs::c("crowd");
    let more = [("COMPAT_ALARM", (4 * READY.as_secs()).to_string())];
    let start = |role: &str, arguments: &[&str]| {
        product::start(&Combo::shimmed(), &crowd, role, folder.path(), arguments, &more)
    };
    let server = start("server", &["threads"]);
    let ends = Instant::now() + 4 * READY;
    let mut clients = Vec::new();
    // One after the other: of those that have proven nothing yet there are few.
    for n in 0..CLIENTS + beyond {
        let mut client = start(&format!("client-{n}"), &["", "60", &n.to_string()]);
        let done = folder.file(&format!("port.done-{n}"));
        await_that("the exchanges", ends.saturating_duration_since(Instant::now()), || {
            done.exists() || client.ended().is_some()
        });
        clients.push(client);
    }
    let of = |pid| product::family(pid).expect("a family");
    let (served, last) = (of(server.pid().as_raw()), of(clients[clients.len() - 1].pid().as_raw()));
    (0..CLIENTS + beyond).for_each(|n| product::mark(&folder, &format!("looked-{n}")));
    for client in clients {
        let ended = client.finish(Instant::now() + Duration::from_secs(20));
        assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    }
    assert_eq!(served.channels, CLIENTS, "{:?}", served.on_tcp);
    // It counts each hello that it refuses, and a client may say more than one.
    let refused = served.on_tcp.get("slots").copied().unwrap_or(0);
    assert!(refused >= beyond && served.on_tcp.len() == 1, "{:?}", served.on_tcp);
    assert_eq!(last.channels, 0, "{last:?}");
    drop(server);
}
