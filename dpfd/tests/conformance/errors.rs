//! Every error names the thing and the way out.

use dpfd::driver::kernel::network::Network;
use dpfd::driver::Driver;
use dpfd::{Addr, Endpoint, Parts};
use std::io::IoSlice;

use crate::kit::*;

pub fn numbers(d: Driver) {
    let n = crate::kit::numbers(1);
    let _e = open(d, n);
    let error = Endpoint::open_on(d, n).unwrap_err();
    assert_eq!(error.errno(), libc::EADDRINUSE);
    assert!(error.to_string().contains(&n.to_string()) && error.to_string().contains("dp ls"), "{error}");
    for text in ["0", "65536", "x", "", "1/0", "0/1", "-1", "+1", "1/2/3", "1/"] {
        let error = text.parse::<Addr>().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!("7".parse::<Addr>().expect("an address"), local(7));
    assert_eq!("2/7".parse::<Addr>().expect("an address").to_string(), "2/7");
}

pub fn targets(d: Driver) {
    let e = open(d, crate::kit::numbers(1));
    assert_eq!(e.send(b"x").unwrap_err().errno(), libc::EDESTADDRREQ);
    let error = e.target(Addr { nid: 999, dpid: 1 }).unwrap_err();
    assert_eq!(error.errno(), libc::EHOSTUNREACH);
    assert!(error.to_string().contains("999"), "{error}");
    assert_eq!(e.target(local(0)).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(e.send_to(b"x", Addr { nid: 999, dpid: 1 }).unwrap_err().errno(), libc::EHOSTUNREACH);
    // Oneself is a target like any other.
    e.target(e.addr()).expect("oneself");
    e.send(b"to myself").expect("room");
    assert_eq!(recv(&e), b"to myself");
}

pub fn lengths(d: Driver) {
    let (a, b) = pair(d);
    let error = a.send(&vec![0; (16 << 20) + 1]).unwrap_err();
    assert_eq!(error.errno(), libc::EMSGSIZE);
    assert!(error.to_string().contains("16777216"), "{error}");
    a.send(b"there").expect("room");
    assert_eq!(read(&b), b"there");
    let long = numbered(1, 1 << 20);
    if is_plainly_limited(d) {
        // A receiver that reads plainly cannot have what no packet carries; its sender does not wait for ever.
        let error = a.send(&long).unwrap_err();
        assert_eq!(error.errno(), libc::EMSGSIZE, "{error}");
    } else {
        a.send(&long).expect("memory of its own");
        assert!(read(&b) == long);
    }
    a.send(b"still whole").expect("room");
    assert_eq!(read(&b), b"still whole");
}

pub fn privileged_numbers(d: Driver) {
    let root = nix::unistd::geteuid().is_root();
    if root {
        drop(open(d, 999));
        // A child without the privilege, and with a folder of its own.
        child(move || {
            let dir = std::env::temp_dir().join(format!("dp-unprivileged-{}", std::process::id()));
            std::env::set_var("DP_RUNTIME_DIR", &dir);
            nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).expect("a group");
            nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("a user");
            let refused = Endpoint::open_on(d, 999)
                .is_err_and(|e| e.errno() == libc::EACCES && e.to_string().contains("CAP_NET_BIND_SERVICE"));
            let allowed = Endpoint::open_on(d, 1024).is_ok();
            let _ = std::fs::remove_dir_all(dir);
            refused && allowed
        })
        .ok();
    } else {
        assert_eq!(Endpoint::open_on(d, 999).unwrap_err().errno(), libc::EACCES);
    }
}

pub fn releases(d: Driver) {
    let mut b = open(d, crate::kit::numbers(1));
    let error = b.release_oldest(1).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("0 are loaned"), "{error}");
}

pub fn folders(d: Driver) {
    let n = crate::kit::numbers(1);
    child(move || {
        std::env::set_var("DP_RUNTIME_DIR", "/proc/no/such/folder");
        let opened = Endpoint::open_on(d, n);
        if !needs_a_folder(d) {
            return opened.is_ok();
        }
        opened.is_err_and(|e| {
            let text = e.to_string();
            e.errno() == libc::ENOENT
                && text.contains("/proc/no/such/folder")
                && text.contains("DP_RUNTIME_DIR")
        })
    })
    .ok();
}

pub fn strict_graphs(d: Driver) {
    let first = crate::kit::numbers(3);
    let (b, c) = (first + 1, first + 2);
    child(move || {
        crate::kit::folder();
        let nid = match d {
            Driver::User => 1,
            Driver::Kernel => Network::read().expect("the kernel's word").nid,
        };
        let file = std::env::temp_dir().join(format!("dp-strict-{}", std::process::id()));
        let compiled = format!("dp-graph 1\nstrict\nedge {nid}/{first} {nid}/{b}\nend\n");
        std::env::set_var("DP_GRAPH", &file);
        // What is there in its place is told at once.
        let missing = Endpoint::open_on(d, first);
        assert!(missing.is_err_and(|e| e.errno() == libc::ENOENT && e.to_string().contains("DP_GRAPH")));
        std::fs::write(&file, compiled.strip_suffix("end\n").expect("its end")).expect("a file");
        let cut = Endpoint::open_on(d, first);
        assert!(cut.is_err_and(|e| e.errno() == libc::EINVAL && e.to_string().contains("the end is missing")));

        std::fs::write(&file, compiled).expect("a file");
        let [one, two, three] = [first, b, c].map(|dpid| Endpoint::open_on(d, dpid).expect("an endpoint"));
        std::fs::remove_file(&file).expect("a file");
        let refused = |done: dpfd::Result<()>| {
            done.is_err_and(|e| e.errno() == libc::EACCES && e.to_string().contains("has no edge"))
        };
        one.target(local(b)).expect("an edge");
        assert!(refused(one.target(local(c))), "no edge");
        assert!(refused(two.target(local(first))), "an edge is one direction");
        crate::kit::write(&one, b"plainly, to the target that stays");
        for _ in 0..2 {
            assert!(refused(one.send_to(b"x", local(c))));
            assert!(refused(one.send_to(b"x", Addr { nid, dpid: c })));
            assert!(refused(one.send_parts_to(Parts::new(&[IoSlice::new(b"x")]), local(c))));
            assert!(refused(three.send_to(b"x", local(b))), "an endpoint without an edge");
            one.send_to(b"y", Addr { nid, dpid: b }).expect("an edge");
        }
        crate::kit::read(&two).starts_with(b"plainly") && (0..2).all(|_| crate::kit::read(&two) == b"y")
    })
    .ok();
}

pub fn other_users(d: Driver) {
    use std::os::unix::fs::PermissionsExt;
    let first = crate::kit::numbers(2);
    if !nix::unistd::geteuid().is_root() {
        // Nobody else to be: a folder that everybody shares is refused at once.
        return child(move || {
            std::env::set_var("DP_RUNTIME_DIR", "/");
            Endpoint::open_on(d, first).is_err_and(|e| e.errno() == libc::EACCES)
        })
        .ok();
    }
    child(move || {
        // A folder that root shares with a group.
        let dir = std::env::temp_dir().join(format!("dp-group-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        std::os::unix::fs::chown(&dir, None, Some(65534)).expect("a group");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o2770)).expect("a mode");
        std::env::set_var("DP_RUNTIME_DIR", &dir);
        let c = child(move || {
            nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).expect("a group");
            nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("a user");
            let a = Endpoint::open_on(d, first).expect("an endpoint");
            a.target(local(first + 1)).expect("a target");
            // Found to be denied soon, not waited for for ever; and said in words.
            let end = std::time::Instant::now() + SOON;
            loop {
                match a.send(b"let me in") {
                    Err(e) => return e.errno() == libc::EACCES && e.to_string().contains("another user"),
                    Ok(()) if std::time::Instant::now() > end => return false,
                    Ok(()) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
        });
        let b = open(d, first + 1);
        c.ok();
        b.set_nonblocking(true).expect("a flag");
        let quiet = b.recv().is_err();
        let _ = std::fs::remove_dir_all(dir);
        quiet
    })
    .ok();
}

/// Whoever puts a door of his own in the place of another's must not have what is sent there.
pub fn doors_of_strangers(d: Driver) {
    use std::os::unix::fs::PermissionsExt;
    let n = crate::kit::numbers(2);
    if !nix::unistd::geteuid().is_root() || !needs_a_folder(d) {
        return; // Nobody else to be; and the kernel itself knows who is who.
    }
    child(move || {
        crate::kit::folder(); // Not later, in the place of this one.
        let dir = std::env::temp_dir().join(format!("dp-strangers-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        std::os::unix::fs::chown(&dir, None, Some(65534)).expect("a group");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o2770)).expect("a mode");
        std::env::set_var("DP_RUNTIME_DIR", &dir);
        let _server = open(d, n);
        let (ready, is_ready) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let stranger = child(move || {
            nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).expect("a group");
            nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("a user");
            let dir = std::env::var_os("DP_RUNTIME_DIR").expect("set above");
            std::fs::remove_file(std::path::Path::new(&dir).join(n.to_string())).expect("an entry");
            let e = open(d, n);
            std::io::Write::write_all(&mut &is_ready, b"!").expect("a pair");
            e.set_nonblocking(true).expect("a flag");
            let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
            while std::time::Instant::now() < end {
                if e.recv().is_ok() {
                    return false;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            true
        });
        std::io::Read::read_exact(&mut &ready, &mut [0]).expect("a stranger");
        let client = child(move || {
            let client = open(d, n + 1);
            client.target(local(n)).expect("a target");
            // The first one waits for whoever has the number next; then it is said.
            let end = std::time::Instant::now() + SOON;
            loop {
                match client.send(b"secret") {
                    Err(e) => return e.errno() == libc::EACCES && e.to_string().contains("another user"),
                    Ok(()) if std::time::Instant::now() > end => return false,
                    Ok(()) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
        });
        stranger.ok();
        client.ok();
        let _ = std::fs::remove_dir_all(dir);
        true
    })
    .ok();
}

/// A program that opens its endpoint as root, and is another user's from then on.
pub fn one_that_was_root(d: Driver) {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    let n = crate::kit::numbers(3);
    if !nix::unistd::geteuid().is_root() || !needs_a_folder(d) {
        return; // Nobody else to be; and the kernel itself knows who is who.
    }
    let give_up = || {
        nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).expect("a group");
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("a user");
    };
    let in_time = |e: &Endpoint| crate::kit::becomes_readable(e) && !e.recv().expect("a message").is_empty();
    child(move || {
        crate::kit::folder(); // Not later, in the place of this one.
        let dir = std::env::temp_dir().join(format!("dp-was-root-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        std::os::unix::fs::chown(&dir, None, Some(65534)).expect("a group");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o2770)).expect("a mode");
        std::env::set_var("DP_RUNTIME_DIR", &dir);
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o007));
        let (ready, is_ready) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let server = child(move || {
            let e = open(d, n);
            give_up();
            (&is_ready).write_all(b"!").expect("a pair");
            let own = open(d, n + 1);
            own.send_to(b"from myself", local(n)).expect("room");
            in_time(&e) && in_time(&e)
        });
        (&ready).read_exact(&mut [0]).expect("a server");
        let client = child(move || {
            give_up();
            let e = open(d, n + 2);
            e.send_to(b"from another", local(n)).expect("room");
            // Until it is taken.
            std::thread::sleep(std::time::Duration::from_secs(1));
            true
        });
        server.ok();
        client.ok();
        let _ = std::fs::remove_dir_all(dir);
        true
    })
    .ok();
}

/// A folder that nobody named, made by another user before: in /dev/shm anybody can.
pub fn folders_of_strangers(d: Driver) {
    use nix::mount::{mount, MsFlags};
    use nix::sched::{unshare, CloneFlags};
    use std::os::unix::fs::DirBuilderExt;
    if !nix::unistd::geteuid().is_root() || !needs_a_folder(d) {
        return;
    }
    child(move || {
        let own = unshare(CloneFlags::CLONE_NEWNS).and_then(|()| {
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
            mount(Some("tmpfs"), "/dev/shm", Some("tmpfs"), MsFlags::empty(), Some("size=1m,mode=1777"))
        });
        if own.is_err() {
            return true; // No file systems of its own here.
        }
        crate::kit::folder();
        std::env::remove_var("DP_RUNTIME_DIR");
        std::env::remove_var("XDG_RUNTIME_DIR");
        let made = |name: &str| {
            std::fs::DirBuilder::new().mode(0o700).create(name).expect("a folder");
            std::os::unix::fs::chown(name, Some(1000), Some(1000)).expect("an owner");
        };
        made("/dev/shm/dp-0");
        let refused = |e: dpfd::Error| e.errno() == libc::EACCES && e.to_string().contains("another user");
        assert!(Endpoint::open_on(d, 7000).is_err_and(refused), "a stranger's folder");
        // What su(1) leaves is another user's, and stays as it is.
        std::fs::remove_dir("/dev/shm/dp-0").expect("a folder");
        made("/dev/shm/of-the-user");
        std::env::set_var("XDG_RUNTIME_DIR", "/dev/shm/of-the-user");
        let opened = Endpoint::open_on(d, 7000).is_ok();
        opened && !std::path::Path::new("/dev/shm/of-the-user/dp").exists()
    })
    .ok();
}
