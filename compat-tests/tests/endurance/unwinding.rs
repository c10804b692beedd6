//! A signal handler may end its thread anywhere in a call of ours (pthread_exit, an asynchronous cancellation). The unwinding
//! passes our frames, and it ends the whole program in a frame whose function has something to drop, if it began between
//! that function's calls. So what sends, receives, waits and introduces has nothing to drop: its unwind tables name no LSDA.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use compat_tests::programs;
use compat_tests::tools::needed;

/// Parts of names of functions that have to be so.
const WAYS: [&str; 21] = [
    "dp_preload::link::",
    "dp_preload::tx::",
    "dp_preload::rx::",
    "dp_preload::channel::",
    "dp_preload::proof::",
    "dp_preload::ops::recv::",
    "dp_preload::inside::",
    "dp_preload::guests::find",
    "dp_preload::wait::",
    "dp_preload::ops::wait::",
    "dp_preload::ops::leave::",
    "dp_preload::ops::variadic::",
    "dp_preload::epoll::wait::",
    "dp_preload::epoll::world::",
    "dp_preload::epoll::ctl",
    "dp_preload::epoll::expose",
    "dp_preload::epoll::has_news",
    "dp_channel::watch::filter::",
    "dp_channel::watch::report::",
    "dp_channel::watch::hot::",
    "dp_preload::client::round::go_round",
];

/// POSIX' cancellation points, those that must be and those that may be, as far as they could stand in the table: what is in
/// neither list a thread that is cancelled goes through.
const CANCELLED: &str = "accept accept4 aio_suspend close connect creat fcntl open openat poll ppoll pread pselect pwrite read readv \
    recv recvfrom recvmsg recvmmsg select send sendmsg sendmmsg sendto system write writev preadv preadv2 pwritev pwritev2 \
    sendfile splice epoll_wait epoll_pwait epoll_pwait2 closedir dprintf vdprintf fclose fdopendir fflush fgetc fgets fopen \
    fprintf fputc fputs fread freopen fscanf fwrite getc getchar ioctl lseek pclose perror printf putc putchar puts scanf \
    vfprintf vprintf syslog";

fn said(tool: &str, options: &[&str], library: &Path) -> String {
    let output = Command::new(needed(tool, "binutils")).args(options).arg(library).output();
    String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
}

/// Functions by address.
fn functions(library: &Path) -> BTreeMap<u64, String> {
    let names = said("nm", &["-C"], library);
    let named = names.lines().filter_map(|line| {
        let (address, rest) = line.split_once(' ')?;
        let name = rest.strip_prefix("t ").or_else(|| rest.strip_prefix("T "))?;
        Some((u64::from_str_radix(address, 16).ok()?, name.to_string()))
    });
    named.collect()
}

/// Addresses of functions that have something to drop: entries (FDE) whose augmentation data is an address.
fn with_something_to_drop(library: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    let mut function = None;
    for line in said("readelf", &["--debug-dump=frames", "--wide"], library).lines() {
        if line.contains(" CIE") {
            function = None;
        } else if let Some((_, range)) = line.split_once(" FDE ").and_then(|(_, rest)| rest.split_once("pc="))
        {
            function = range.split("..").next().and_then(|address| u64::from_str_radix(address, 16).ok());
        } else if let Some(data) = line.trim().strip_prefix("Augmentation data:") {
            let is_address = data.bytes().any(|byte| !matches!(byte, b'0' | b' '));
            found.extend(function.filter(|_| is_address));
        }
    }
    found
}

#[test]
fn a_thread_may_be_ended_anywhere_in_what_sends_receives_and_waits() {
    let shim = std::env::var_os("DP_SHIM").map(PathBuf::from);
    let library = shim.unwrap_or_else(|| programs::target_dir().join("release/libdp_preload.so"));
    let functions = functions(&library);
    let named = |address| functions.get(&address).map_or("", String::as_str);
    let drops: Vec<&str> = with_something_to_drop(&library).into_iter().map(named).collect();
    // The tables were read: these are known to have something.
    assert!(drops.iter().any(|name| name.contains("dp_preload::client::round::make")), "{drops:?}");
    for way in WAYS {
        // A single function may be part of its caller, a module is always there.
        let module = way.ends_with("::");
        assert!(!module || functions.values().any(|name| name.contains(way)), "{way}: no such function");
        // What a forked child does first is in no call of the program's, nor is what is done when a thread has been unwound.
        let beside = ["::inherited", "::at_end_of_thread"];
        let in_calls = |name: &&&str| name.contains(way) && !beside.iter().any(|part| name.contains(part));
        let bad: Vec<_> = drops.iter().filter(in_calls).collect();
        assert!(bad.is_empty(), "{bad:?}: have something to drop; see this file");
    }
}

/// A hook of redhook's ends the program where a thread is cancelled inside it.
#[test]
fn no_call_that_may_be_cancelled_goes_through_redhook() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/src/table.rs");
    let text = std::fs::read_to_string(&table).expect("the table");
    let quick: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("quick fn ")?.split('(').next()).collect();
    assert!(quick.contains(&"setsockopt"), "{quick:?}");
    let plain =
        |name: &str| name.trim_start_matches('_').trim_end_matches("_chk").trim_end_matches("64").to_string();
    let bad: Vec<_> =
        quick.iter().filter(|name| CANCELLED.split_whitespace().any(|call| call == plain(name))).collect();
    assert!(bad.is_empty(), "{bad:?}: `sleep` in preload/src/table.rs");
}
