//! Hooks run in signal handlers, whose stack may be a small one, so no function takes much of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use compat_tests::programs;
use compat_tests::tools::needed;

/// Bytes of the stack that a function may take.
const MOST: u64 = 1024;

/// Code that no hook comes to.
const OTHERS: [&str; 7] =
    ["std::", "core::", "alloc::", "gimli::", "addr2line::", "rustc_demangle::", "miniz_oxide::"];

/// Functions that take more, and why they may.
fn reasons() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/large-frames.txt");
    let text = std::fs::read_to_string(path).expect("golden/large-frames.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let one = |line: &str| {
        let (name, reason) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no reason"));
        (name.to_string(), reason.to_string())
    };
    lines.map(one).collect()
}

/// The number behind `before` in an instruction that makes room on the stack.
fn number(instruction: &str, before: &str, behind: &str) -> Option<u64> {
    let (_, rest) = instruction.split_once(before)?;
    u64::from_str_radix(rest.strip_suffix(behind)?, 16).ok()
}

/// Each function with what it takes. A large frame is taken page by page, and r11 has where its last page ends.
fn frames(listing: &str) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> = Vec::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            all.push((name.1, 0));
        }
        let Some((_, now)) = all.last_mut() else { continue };
        let taken = number(line, "sub    $0x", ",%rsp").or_else(|| number(line, "lea    -0x", "(%rsp),%r11"));
        *now = (*now).max(taken.unwrap_or(0));
    }
    all
}

#[test]
fn no_hook_takes_much_of_the_stack() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let shim = std::env::var_os("DP_SHIM").map(PathBuf::from);
    let shim = shim.unwrap_or_else(|| programs::target_dir().join("release/libdp_preload.so"));
    let listing = Command::new(needed("objdump", "binutils"))
        .args(["-d", "-C", "--no-show-raw-insn"])
        .arg(shim)
        .output()
        .expect("objdump runs");
    let listing = String::from_utf8_lossy(&listing.stdout);
    let (all, reasons) = (frames(&listing), reasons());
    assert!(
        all.len() > 500 && all.iter().filter(|(_, size)| *size > 64).count() > 100,
        "{} functions",
        all.len()
    );
    let ours =
        |name: &str| !OTHERS.iter().any(|other| name.trim_start_matches(['<', '&']).starts_with(other));
    let excused = |name: &str| reasons.keys().any(|reason| name.starts_with(reason.as_str()));
    let large: Vec<_> =
        all.iter().filter(|(name, size)| *size > MOST && ours(name) && !excused(name)).collect();
    assert!(
        large.is_empty(),
        "more than {MOST} bytes of the stack, and not in golden/large-frames.txt: {large:?}"
    );
}

#[test]
fn frames_are_read_out_of_a_listing() {
    let listing = "\
0000000000001000 <a::b>:
    1000:\tpush   %rbp
    1001:\tsub    $0x28,%rsp
0000000000002000 <c::d<e>>:
    2000:\tlea    -0x2000(%rsp),%r11
    2008:\tsub    $0x1000,%rsp
    200f:\tcmp    %r11,%rsp
    2014:\tsub    $0xc8,%rsp
";
    assert_eq!(frames(listing), [("a::b", 0x28), ("c::d<e>", 0x2000)]);
}
