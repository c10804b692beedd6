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
