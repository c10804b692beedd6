//! What channels take of memory and addresses.

use std::fs;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, TempDir};
use compat_tests::{programs, Combo};

use crate::product;

#[derive(Debug)]
struct Sizes {
    /// KiB.
    resident: u64,
    addresses: u64,
}

/// Longest time for connections to be made and used.
const READY: Duration = Duration::from_secs(120);

/// What `count` connections take on either side, when all of them are channels, and idle.
fn idle(count: usize) -> [Sizes; 2] {
    let (folder, program) = (TempDir::new(), programs::c("many_idle"));
    let seconds = [("COMPAT_ALARM", "100".to_string())];
    let start = |role| {
        product::start(&Combo::shimmed(), &program, role, folder.path(), &["", &count.to_string()], &seconds)
    };
    let mut jobs = [start("server"), start("client")];
    let marked = |side: &str| folder.file(&format!("port.{side}-done")).exists();
    await_that("the exchanges", READY, || {
        marked("server") && marked("client") || jobs.iter_mut().any(|job| job.ended().is_some())
    });
    let channels = jobs.each_ref().map(|job| product::family(job.pid().as_raw()).map_or(0, |f| f.channels));
    product::mark(&folder, "looked");
    let deadline = Instant::now() + Duration::from_secs(20);
    let ended = jobs.map(|job| job.finish(deadline));
    assert!(ended.iter().all(|side| side.ok()), "{}{}", ended[0].text(), ended[1].text());
    assert_eq!(channels, [count as u64; 2], "channels of {count} connections");
    ended.map(|side| {
        let number = |name: &str| -> u64 {
            let mut words = side.transcript.split_whitespace().skip_while(|&word| word != name);
            words.nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
        };
        Sizes { resident: number("resident"), addresses: number("addresses") }
    })
}

/// Both ends together, with what they share counted twice. What the kernel has for a socket is not among it.
#[test]
fn an_idle_channel_takes_no_more_than_12_kib() {
    let _turn = product::alone();
    let count = if product::long() { 10_000 } else { 1500 };
    let sides = idle(count);
    let sum: u64 = sides.iter().map(|side| side.resident).sum();
    assert!(sum <= 12 * count as u64, "{count} channels: {sides:?}, {} KiB each", sum as f64 / count as f64);
}

#[test]
fn a_program_with_one_channel_takes_no_more_than_64_mib_of_addresses() {
    let _turn = product::alone();
    let sides = idle(1);
    assert!(sides.iter().all(|side| side.addresses <= 64 << 10), "KiB: {sides:?}");
}

/// Mappings that a client has at first, after `early` servers, and after all of them.
fn newcomers(servers: u32, early: u32, threads: u32, holds: u32) -> [u32; 3] {
    let (folder, program) = (TempDir::new(), programs::c("newcomers"));
    let numbers = [servers, early, threads, holds].map(|number| number.to_string());
    let arguments = ["", &numbers[0], &numbers[1], &numbers[2], &numbers[3]];
    let seconds = [("COMPAT_ALARM", READY.as_secs().to_string())];
    let job = product::start(&Combo::shimmed(), &program, "client", folder.path(), &arguments, &seconds);
    let ended = job.finish(Instant::now() + READY);
    assert!(ended.ok(), "{}", ended.text());
    ["first", "then", "last"].map(|name| {
        let mut words = ended.transcript.split_whitespace().skip_while(|&word| word != name);
        words.nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
    })
}

/// Each arena is three mappings, or one more; 64 are kept, and as many wait for whoever may be inside.
#[test]
fn mappings_do_not_grow_with_the_servers_that_a_client_has_met() {
    let _turn = product::alone();
    let servers = if product::long() { 5000 } else { 300 };
    let [first, then, last] = newcomers(servers, 60, 1, 0);
    assert!(then > first + 150, "they are channels: {first} mappings, {then} with 60 servers");
    assert!(last < first + 450, "{first} mappings at first, {last} after {servers} servers");
}

#[test]
fn arenas_are_unmapped_while_other_threads_are_busy() {
    let _turn = product::alone();
    let servers = if product::long() { 2000 } else { 150 };
    let [first, _, last] = newcomers(servers, 60, 4, 0);
    assert!(last < first + 500, "{first} mappings at first, {last} after {} servers", 4 * servers);
}

/// However long the thread takes.
#[test]
fn an_arena_stays_mapped_while_a_thread_is_in_the_middle_of_a_receive() {
    let _turn = product::alone();
    newcomers(70, 60, 1, 1);
}

/// In the long run 50 000 of them. Five processes that one has forked serve five clients, each from an address of its own:
/// there are more connections than ports.
#[test]
fn all_connections_of_five_processes_of_a_family_are_channels() {
    let _turn = product::alone();
    let each = if product::long() { 10_000 } else { 400 };
    let (folder, program) = (TempDir::new(), programs::c("beside"));
    // A process serves more than its share if it is quicker, but never more than it has descriptors.
    let most = (each * 3 / 2).to_string();
    let arguments = ["family", &each.to_string(), "5", &most];
    let start = |role: &str, address: &str| {
        let more = [
            ("COMPAT_ALARM", (READY.as_secs() + 60).to_string()),
            ("COMPAT_LISTEN", "0.0.0.0".to_string()),
            ("COMPAT_CONNECT", address.to_string()),
        ];
        product::start(&Combo::shimmed(), &program, role, folder.path(), &arguments, &more)
    };
    let server = start("server", "");
    let addresses = (1..=5).map(|k| format!("127.0.0.{k}"));
    let mut clients: Vec<_> = addresses.map(|to| (start(&format!("client-{to}"), &to), to)).collect();
    await_that("the exchanges", READY, || {
        let done = |to: &str| folder.file(&format!("port.{to}")).exists();
        clients.iter_mut().all(|(job, to)| done(to) || job.ended().is_some())
    });
    let text = fs::read_to_string(folder.file("port")).expect("the port");
    let port = text.split_whitespace().nth(1).and_then(|port| port.parse().ok()).expect("the port");
    let ends = product::channel_ends(port);
    product::mark(&folder, "looked");
    let deadline = Instant::now() + Duration::from_secs(60);
    let jobs = clients.into_iter().map(|(job, _)| job).chain([server]);
    // Of one that failed the others hear as well: which was the first, all of them tell.
    let ended: Vec<_> = jobs.map(|job| job.finish(deadline)).filter(|ended| !ended.ok()).collect();
    let failed: Vec<String> = ended.iter().map(|ended| ended.text()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(ends, 2 * 5 * each);
}
