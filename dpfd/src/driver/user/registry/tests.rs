use super::*;

fn temporary(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("dp-registry-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

fn entry(process: &str, serial: u32) -> Entry {
    Entry { process: process.to_string(), serial }
}

#[test]
fn a_number_is_entered_once_and_found() {
    let r = Registry::at(temporary("once")).unwrap();
    assert!(r.enter(1025, &entry("7-ab", 3)).unwrap());
    assert!(!r.enter(1025, &entry("8-cd", 1)).unwrap());
    assert_eq!(r.look_up(1025), Some(entry("7-ab", 3)));
    assert_eq!(r.look_up(1026), None);
    r.remove(1025, &entry("8-cd", 1));
    assert!(r.look_up(1025).is_some(), "only its own entry is removed");
    r.remove(1025, &entry("7-ab", 3));
    assert_eq!(r.look_up(1025), None);
    fs::remove_dir_all(r.folder()).unwrap();
}

#[test]
fn entries_of_dead_processes_are_swept_and_those_of_the_living_stay() {
    let r = Registry::at(temporary("sweep")).unwrap();
    let me = r.join().unwrap();
    assert!(r.enter(1, &entry(&me.name, 1)).unwrap());
    // A lock file that nobody holds is a dead process's.
    fs::write(r.lock_path("99-dead"), "").unwrap();
    fs::write(r.door_path("99-dead"), "").unwrap();
    assert!(r.enter(2, &entry("99-dead", 1)).unwrap());
    // One's own lock does not show to oneself: another process looks.
    let folder = r.folder().to_path_buf();
    let status = in_child(move || {
        let r = Registry::at(folder).unwrap();
        r.sweep();
        r.look_up(1).is_some() && r.look_up(2).is_none()
    });
    assert!(status);
    // Nor does sweeping give up one's own lock.
    r.sweep();
    let folder = r.folder().to_path_buf();
    let name = me.name.clone();
    assert!(in_child(move || Registry::at(folder).unwrap().lives(&name)));
    assert!(!r.lock_path("99-dead").exists() && !r.door_path("99-dead").exists());
    r.leave(&me);
    fs::remove_dir_all(r.folder()).unwrap();
}

#[test]
fn any_number_is_found_while_one_is_free_or_a_dead_ones() {
    let r = Registry::at(temporary("any")).unwrap();
    let me = r.join().unwrap();
    for dpid in PRIVILEGED..=Dpid::MAX {
        let owner = if dpid == 2000 { "99-dead" } else { &me.name };
        assert!(dpid == 3000 || r.enter(dpid, &entry(owner, 1)).unwrap());
    }
    assert_eq!(r.enter_any(&entry(&me.name, 2)).unwrap(), 3000);
    assert!(matches!(r.enter_any(&entry(&me.name, 3)), Err(Error::NoneFree)));
    fs::write(r.lock_path("99-dead"), "").unwrap();
    assert_eq!(r.enter_any(&entry(&me.name, 3)).unwrap(), 2000);
    r.leave(&me);
    fs::remove_dir_all(r.folder()).unwrap();
}

/// Runs `f` in a forked child; whether it said yes.
#[allow(unsafe_code, clippy::allow_attributes)]
fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing but `f` and leaves without handlers.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let yes = f();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!yes)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None) == Ok(nix::sys::wait::WaitStatus::Exited(child, 0))
        }
    }
}

#[test]
fn hostile_entries_lead_nowhere() {
    for text in ["", ".", "x", "../../etc/passwd.1", "a/b.1", "7-ab.", "7-ab.x", "7 8.1"] {
        assert_eq!(Entry::parse(text), None, "{text:?}");
    }
}

#[test]
fn a_folder_open_to_everybody_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temporary("open");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Registry::at(dir.clone()).unwrap_err();
    assert_eq!(error.errno(), libc::EACCES);
    assert!(error.to_string().contains("DP_RUNTIME_DIR"), "{error}");
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_folder_that_was_not_named_is_the_users_own() {
    use std::os::unix::fs::{chown, PermissionsExt};
    // Only root can give a folder away.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = temporary("strange");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o2770)).unwrap();
    chown(&dir, Some(65534), None).unwrap();
    assert_eq!(Registry::look(dir.clone(), false).unwrap_err().errno(), libc::EACCES);
    // Root may name it, and then goes by that user's word, and by no other's.
    let named = Registry::at(dir.clone()).unwrap();
    assert!(named.believes(65534) && named.believes(0) && !named.believes(1));
    chown(&dir, Some(0), None).unwrap();
    let own = Registry::look(dir.clone(), false).unwrap();
    assert!(own.believes(0) && !own.believes(65534));
    // A program that began as root and goes on as another user stays reachable for that one.
    let path = dir.clone();
    assert!(in_child(move || {
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).unwrap();
        let other = Registry::at(path).unwrap();
        other.believes(65534) && other.believes(0) && !other.believes(1)
    }));
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn free_numbers_are_given_from_the_upper_half() {
    let r = Registry::at(temporary("free")).unwrap();
    let dpid = r.enter_any(&entry("7-ab", 1)).unwrap();
    assert!(dpid >= FIRST_FREE);
    assert_eq!(r.entries(), [(dpid, entry("7-ab", 1))]);
    fs::remove_dir_all(r.folder()).unwrap();
}
