//! The library replaces exactly what it says, and everything of glibc that could go around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use compat_tests::programs;
use compat_tests::tools::needed;

/// What carries bytes, or makes, copies, closes, waits for and hands on descriptors.
const CALLS: &str = "read write recv send recvfrom sendto recvmsg sendmsg recvmmsg sendmmsg readv writev preadv \
    pwritev preadv2 pwritev2 pread pwrite sendfile splice tee vmsplice copy_file_range connect accept accept4 listen \
    bind socket socketpair shutdown getpeername getsockname getsockopt setsockopt sockatmark isfdtype close dup dup2 \
    dup3 close_range closefrom fcntl ioctl poll ppoll select pselect epoll_create epoll_create1 epoll_ctl epoll_wait \
    epoll_pwait epoll_pwait2 fdopen fclose freopen fcloseall execve execv execvp execvpe execl execlp execle execveat \
    fexecve posix_spawn posix_spawnp posix_spawn_file_actions_adddup2 posix_spawn_file_actions_addclose \
    posix_spawn_file_actions_addclosefrom_np pidfd_spawn pidfd_spawnp pidfd_getfd syscall dprintf vdprintf backtrace_symbols_fd fork _Fork \
    vfork clone popen system daemon aio_read aio_write lio_listio";

/// STYLE, trap 6.
const FORGOTTEN: &str =
    "__read_chk __recv_chk __recvfrom_chk __poll_chk __ppoll_chk recvmmsg sendmmsg ppoll pselect \
    epoll_pwait epoll_pwait2 dup3 accept4 close_range fdopen";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// The names a library defines for others, each with its address.
fn addresses_of(library: &Path) -> Vec<(String, String)> {
    let nm = Command::new(needed("nm", "binutils")).args(["-D", "--defined-only"]).arg(library).output();
    let said = String::from_utf8(nm.expect("nm runs").stdout).expect("names");
    let one = |line: &str| {
        let [address, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        Some((name.split('@').next()?.to_string(), address.to_string()))
    };
    said.lines().filter_map(one).collect()
}

fn defined_by(library: &Path) -> BTreeSet<String> {
    addresses_of(library).into_iter().map(|(name, _)| name).collect()
}

/// The C library that this test runs with.
fn libc() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("our own mappings");
    let path =
        maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")));
    PathBuf::from(path.expect("a libc"))
}

fn shim() -> PathBuf {
    let shim = std::env::var_os("DP_SHIM").map(PathBuf::from);
    shim.unwrap_or_else(|| programs::target_dir().join("release/libdp_preload.so"))
}

fn exported() -> BTreeSet<String> {
    defined_by(&shim())
}

/// Names that are left alone, each with its reason.
fn not_hooked() -> BTreeMap<String, String> {
    let text = fs::read_to_string(golden("not-hooked.txt")).expect("golden/not-hooked.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, reason) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no reason"));
            (name.to_string(), reason.trim().to_string())
        })
        .collect()
}

/// Without what glibc puts around the names of variants of one call.
fn plain(name: &str) -> &str {
    let name = name.strip_prefix("__libc_").or_else(|| name.strip_prefix("__")).unwrap_or(name);
    let mut name = name.strip_prefix("isoc99_").unwrap_or(name);
    for end in ["_chk", "_nocancel", "_time64", "64v2", "64"] {
        name = name.strip_suffix(end).unwrap_or(name);
    }
    name
}

#[test]
fn the_library_exports_what_the_list_says() {
    let text = fs::read_to_string(golden("exports.txt")).expect("golden/exports.txt");
    let listed: BTreeSet<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
    let exported = exported();
    let new: Vec<_> = exported.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&exported).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not in golden/exports.txt: {new:?}; no longer exported: {gone:?}"
    );
}

#[test]
fn every_call_of_glibc_is_replaced_or_has_a_reason() {
    let (exported, reasons) = (exported(), not_hooked());
    let libc = defined_by(&libc());
    let calls: BTreeSet<&str> = CALLS.split_whitespace().collect();
    let relevant = |name: &&String| calls.contains(name.as_str()) || calls.contains(plain(name));
    let missed: Vec<&String> = libc
        .iter()
        .filter(relevant)
        .filter(|name| !exported.contains(*name) && !reasons.contains_key(*name))
        .collect();
    assert!(missed.is_empty(), "neither exported nor in golden/not-hooked.txt: {missed:?}");
    let forgotten: Vec<_> = FORGOTTEN.split_whitespace().filter(|name| !exported.contains(*name)).collect();
    assert!(forgotten.is_empty(), "not exported: {forgotten:?}");
    let both: Vec<_> = reasons.keys().filter(|name| exported.contains(*name)).collect();
    assert!(both.is_empty(), "exported, so no longer for golden/not-hooked.txt: {both:?}");
}

/// A call has several names: whoever uses another one must not go around the shim.
#[test]
fn every_other_name_of_a_replaced_call_is_replaced_or_has_a_reason() {
    let (exported, reasons) = (exported(), not_hooked());
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, address) in addresses_of(&libc()) {
        names.entry(address).or_default().insert(name);
    }
    let replaced = |names: &&BTreeSet<String>| names.iter().any(|name| exported.contains(name));
    let others = names.values().filter(replaced).flatten();
    let missed: Vec<_> =
        others.filter(|name| !exported.contains(*name) && !reasons.contains_key(*name)).collect();
    assert!(
        missed.is_empty(),
        "other names of replaced calls, neither exported nor in golden/not-hooked.txt: {missed:?}"
    );
}

/// A filter of system calls is written by the manual, and tried with the list beside the programs.
#[test]
fn the_manual_lists_the_system_calls_that_are_tried() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read =
        |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let header = read("programs/shim_calls.h");
    let tried: Vec<&str> =
        header.lines().filter_map(|line| line.strip_prefix("X(")?.strip_suffix(')')).collect();
    let manual = read("../man/dp-preload.7");
    let (_, section) = manual.split_once(".Ss Filters of system calls\n").expect("the section");
    let (section, _) = section.split_once("\n.Ss ").expect("the next section");
    let words = section.lines().filter_map(|line| line.strip_prefix(".Cm ")).flat_map(str::split_whitespace);
    let listed: Vec<&str> = words.filter(|word| *word != ",").collect();
    assert_eq!(listed, tried);
}

/// The static probes and how many arguments each has, as tracers find them and the manual lists them.
const PROBES: [(&str, usize); 6] =
    [("offer", 3), ("accept", 3), ("live", 3), ("hand_back", 3), ("leave", 5), ("reset", 5)];

#[test]
fn the_library_has_the_probes_that_the_manual_lists() {
    let folder = compat_tests::tools::TempDir::new();
    let stripped = folder.file("stripped.so");
    // As it is installed.
    let mut strip = Command::new(needed("strip", "binutils"));
    strip.arg("--strip-unneeded").arg("-o").arg(&stripped).arg(shim());
    assert!(strip.status().expect("strip").success());
    let notes = Command::new(needed("readelf", "binutils")).args(["-n", "-W"]).arg(&stripped).output();
    let notes = String::from_utf8_lossy(&notes.expect("readelf").stdout).into_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../man/dp-preload.7")).expect("the manual");
    let mut found = BTreeMap::new();
    let lines: Vec<&str> = notes.lines().map(str::trim).collect();
    for (i, _) in lines.iter().enumerate().filter(|(_, line)| line.ends_with("Provider: dp")) {
        let name = lines[i + 1].strip_prefix("Name: ").expect("a name");
        let after = |start: &str| lines[i..].iter().find_map(|line| line.strip_prefix(start));
        let arguments = after("Arguments:").expect("arguments").split_whitespace().count();
        // No semaphore: nobody would count it up in a program that is there already.
        assert!(
            after("Location: ").is_some_and(|line| line.ends_with("Semaphore: 0x0000000000000000")),
            "{notes}"
        );
        assert!(page.contains(&format!(".It Va {name}\n")), "dp-preload(7) lists {name}");
        found.insert(name, arguments);
    }
    assert_eq!(found, BTreeMap::from(PROBES), "{notes}");
}

/// A hook that reads where it was called from off the stack has no frame (preload/src/ops/load.rs): with one, it would jump wherever that
/// says.
#[test]
fn hooks_that_are_branches_begin_with_them() {
    for name in ["dlopen", "dlmopen"] {
        let code = Command::new(needed("objdump", "binutils"))
            .args(["-d", "--no-show-raw-insn", &format!("--disassemble={name}")])
            .arg(shim())
            .output();
        let said = String::from_utf8(code.expect("objdump runs").stdout).expect("instructions");
        let first = said.lines().skip_while(|line| !line.ends_with(&format!("<{name}>:"))).nth(1);
        let first = first.and_then(|line| line.split('\t').nth(1)).unwrap_or_else(|| panic!("{said}"));
        let branch = if cfg!(target_arch = "x86_64") { "jmp" } else { "b" };
        assert_eq!(first.split_whitespace().next(), Some(branch), "{name}");
    }
}
