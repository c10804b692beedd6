//! What docs/OPERATIONS.md says of limits: up to them all are channels, and what is beyond has its reason. Those of connections
//! are tried in `footprint.rs`, and those of servers at one address in `missed.rs`.

use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, TempDir};
use compat_tests::{programs, Combo};

use crate::product;

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
