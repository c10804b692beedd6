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

/// What `count` connections take on either side, when all of them are channels, and idle.
fn idle(count: usize) -> [Sizes; 2] {
    let (folder, program) = (TempDir::new(), programs::c("many_idle"));
    let seconds = [("COMPAT_ALARM", "100".to_string())];
    let start = |role| {
        product::start(&Combo::shimmed(), &program, role, folder.path(), &["", &count.to_string()], &seconds)
    };
    let mut jobs = [start("server"), start("client")];
    let marked = |side: &str| folder.file(&format!("port.{side}-done")).exists();
    await_that("the exchanges", Duration::from_secs(90), || {
        marked("server") && marked("client") || jobs.iter_mut().any(|job| job.ended().is_some())
    });
    let channels = jobs.each_ref().map(|job| product::family(job.pid().as_raw()).map_or(0, |f| f.channels));
    fs::write(folder.file("new"), "1\n").expect("the mark");
    fs::rename(folder.file("new"), folder.file("port.looked")).expect("the mark");
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
