use std::fs;

use super::*;

/// A file of these bytes that goes away with it.
struct Made(PathBuf);

impl Made {
    fn new(name: &str, data: &[u8]) -> Made {
        let path = std::env::temp_dir().join(format!("dp-program-{}-{name}", std::process::id()));
        fs::write(&path, data).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Made(path)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// An ELF file of this machine whose only segment has this type and contents.
fn elf(segment: u32, contents: &[u8]) -> Vec<u8> {
    let mut data = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
    data[32..40].copy_from_slice(&64u64.to_ne_bytes());
    data[54..56].copy_from_slice(&56u16.to_ne_bytes());
    data[56..58].copy_from_slice(&1u16.to_ne_bytes());
    data.extend(segment.to_ne_bytes());
    data.extend([0; 4]);
    data.extend(120u64.to_ne_bytes());
    data.extend([0; 16]);
    data.extend((contents.len() as u64).to_ne_bytes());
    data.resize(120, 0);
    data.extend(contents);
    data
}

fn reason(name: &str, data: &[u8]) -> Option<Reason> {
    obstacle(&Made::new(name, data).0).map(|obstacle| obstacle.reason)
}

#[test]
fn ordinary_programs_and_scripts_have_no_obstacle() {
    assert_eq!(obstacle(&std::env::current_exe().unwrap()), None);
    assert_eq!(obstacle(Path::new("/bin/sh")), None);
    assert_eq!(reason("script", b"#! /bin/sh -e\n"), None);
    assert_eq!(reason("text", b"echo\n"), None);
    assert_eq!(obstacle(Path::new("/nonexistent")), None);
}

#[test]
fn programs_without_a_loader_of_glibc_are_told_apart() {
    assert_eq!(reason("static", &elf(1, b"")), Some(Reason::Static));
    assert_eq!(reason("glibc", &elf(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0")), None);
    let musl = PathBuf::from("/lib/ld-musl-x86_64.so.1");
    assert_eq!(
        reason("musl", &elf(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0")),
        Some(Reason::OtherLoader(musl))
    );
    let made = Made::new("alpine", &elf(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0"));
    let told = obstacle(&made.0).unwrap();
    assert!(told.refuses_shim() && told.to_string().contains("of musl"), "{told}");
    assert!(told.way_out().contains("glibc"), "{}", told.way_out());
    let note = [&4u32.to_ne_bytes()[..], &2u32.to_ne_bytes(), &4u32.to_ne_bytes(), b"Go\0\0ab\0\0"].concat();
    assert_eq!(reason("go", &elf(PT_NOTE, &note)), Some(Reason::Go));
    let mut other = elf(1, b"");
    other[18] ^= 0x7f;
    assert_eq!(reason("machine", &other), Some(Reason::OtherMachine));
}

/// One that needs this library, as its table of dynamic entries says, which lies behind the names.
fn needing(library: &str) -> Vec<u8> {
    const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
    const HEADERS: [u32; 3] = [PT_INTERP, PT_LOAD, PT_DYNAMIC];
    const ADDRESS: u64 = 0x40_0000;
    let names = 64 + HEADERS.len() * 56;
    let text = [LOADER, b"\0", library.as_bytes(), b"\0"].concat();
    let table = names + text.len();
    let entries = [(DT_NEEDED, LOADER.len() as u64 + 1), (DT_STRTAB, ADDRESS + names as u64), (0, 0)];
    let mut data = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
    data[32..40].copy_from_slice(&64u64.to_ne_bytes());
    data[54..56].copy_from_slice(&56u16.to_ne_bytes());
    data[56..58].copy_from_slice(&(HEADERS.len() as u16).to_ne_bytes());
    for kind in HEADERS {
        let (at, len) = match kind {
            PT_INTERP => (names, LOADER.len()),
            PT_LOAD => (0, table),
            _ => (table, entries.len() * 16),
        };
        data.extend(kind.to_ne_bytes());
        data.extend([0; 4]);
        data.extend([at as u64, ADDRESS + at as u64, 0, len as u64, 0, 0].map(u64::to_ne_bytes).concat());
    }
    data.extend(text);
    data.extend(entries.map(|(tag, value)| [tag.to_ne_bytes(), value.to_ne_bytes()].concat()).concat());
    data
}

#[test]
fn a_program_that_ends_with_a_library_before_its_sanitizer_is_told() {
    assert_eq!(reason("plain", &needing("libc.so.6")), None);
    let made = Made::new("asan", &needing("libasan.so.8"));
    let told = obstacle(&made.0).unwrap();
    assert_eq!(told.reason, Reason::Sanitizer("libasan.so.8".into()));
    assert!(told.refuses_shim() && told.to_string().contains("needs libasan.so.8"), "{told}");
    let options = |text: &str| obstacle_here(&made.0, Some(OsStr::new(text)));
    assert_eq!(options("detect_leaks=0:verify_asan_link_order=0"), None);
    assert!(options("detect_leaks=0").is_some());
    for len in 64..needing("libasan.so.8").len() {
        let cut = reason("cut-asan", &needing("libasan.so.8")[..len]);
        assert!(!matches!(cut, Some(Reason::Go | Reason::OtherLoader(_))), "{len}: {cut:?}");
    }
}

#[test]
fn the_program_that_env_is_to_find_is_looked_at() {
    let program = Made::new("by-env", &elf(1, b""));
    let path = program.0.display();
    for (line, expected) in [
        (format!("#!/usr/bin/env {path}\n"), Some(Reason::Static)),
        (format!("#! /usr/bin/env -S A=1 {path} -x\n"), Some(Reason::Static)),
        ("#!/usr/bin/env sh\n".into(), None),
        ("#!/usr/bin/env no-such-program\n".into(), None),
        ("#!/usr/bin/env\n".into(), None),
    ] {
        assert_eq!(reason("env", line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn broken_files_are_left_to_the_kernel() {
    let whole = elf(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
    for len in [0, 3, 63, 64, 100, 125] {
        assert!(matches!(reason("cut", &whole[..len]), None | Some(Reason::Static)), "{len}");
    }
    let mut far = whole.clone();
    far[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
    assert_eq!(reason("far", &far), None);
    let notes = [&u32::MAX.to_ne_bytes()[..], &u32::MAX.to_ne_bytes(), &[0; 4]].concat();
    assert_eq!(reason("notes", &elf(PT_NOTE, &notes)), Some(Reason::Static));
    let circle = Made::new("circle", b"");
    fs::write(&circle.0, format!("#!{}\n", circle.0.display())).unwrap();
    assert_eq!(obstacle(&circle.0), None);
}

#[test]
fn setuid_and_setgid_of_others_are_seen() {
    let made = Made::new("setuid", &elf(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0"));
    let with = |mode| {
        fs::set_permissions(&made.0, fs::Permissions::from_mode(mode)).unwrap();
        obstacle(&made.0).map(|obstacle| obstacle.reason)
    };
    assert_eq!((with(0o4755), with(0o2755)), (None, None), "one's own");
    // Giving files away is for root alone; without that the rest cannot be tried.
    if std::os::unix::fs::chown(&made.0, Some(4242), Some(4243)).is_ok() {
        assert_eq!(with(0o4755), Some(Reason::SetUser(4242)));
        assert_eq!(with(0o2755), Some(Reason::SetGroup(4243)));
        assert_eq!(with(0o2745), None);
    }
}

#[test]
fn names_are_found_as_execvp_does() {
    assert_eq!(find(OsStr::new("sh"), Some(OsStr::new("/nonexistent:/bin"))), Some(PathBuf::from("/bin/sh")));
    assert_eq!(find(OsStr::new("./x"), None), Some(PathBuf::from("./x")));
    assert_eq!(find(OsStr::new("no-such-program"), None), None);
}
