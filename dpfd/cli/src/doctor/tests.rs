#![expect(unsafe_code, reason = "system calls between fork and exec, by which processes get surroundings")]

use dp_channel::family::Reason;

use super::*;
use crate::ls::families::State;
use crate::ls::tests::listing;

#[test]
fn every_reason_has_a_way_out_but_those_that_need_none() {
    for &reason in Reason::ALL {
        let needs_none = matches!(reason, Reason::None | Reason::Closed);
        assert_eq!(advice::of(reason).is_none(), needs_none, "{}", reason.word());
    }
}

#[test]
fn a_process_that_has_not_the_shim_is_told_how_to_get_it() {
    let found = process::examine(std::process::id(), &[]);
    assert_eq!(found.len(), 1);
    assert!(found[0].verdict == Verdict::Bad && found[0].text.contains("without the shim"), "{found:?}");
    assert!(found[0].way_out.as_ref().unwrap().contains("dp run"));
}

#[test]
fn a_forked_process_is_told_of_where_it_has_a_family_of_its_own() {
    let mut families = listing().families;
    let mut of_a_worker = families[0].clone();
    (of_a_worker.memory, of_a_worker.processes[0].pid) = (Some(10), 73);
    of_a_worker.processes.truncate(1);
    families.push(of_a_worker);
    // 71 forked all others. 72 is of its family, 73 has another, 74 has none; of 75 nothing is known that is listed.
    let parent = |pid| if pid == 75 { Some(1) } else { (pid != 71).then_some(71) };
    assert_eq!(firsts(&[71, 72, 73, 74, 75], parent, &families), [71, 73, 75]);
    assert_eq!(firsts(&[72, 74], parent, &families), [72, 74]);
}

#[test]
fn of_connections_on_tcp_the_reason_is_told() {
    let mut listing = listing();
    let me = std::process::id();
    listing.families[0].processes[0].pid = me;
    let found = process::examine(me, &listing.families);
    let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
    assert!(texts.contains(&"1 open, 5 since it began"), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("3 on TCP, no-offer: ")), "{texts:?}");
    assert!(found.iter().all(|f| f.verdict < Verdict::Bad), "{found:?}");
    listing.families[0].connections[0].state = "offered";
    let found = process::examine(me, &listing.families);
    assert!(found.iter().any(|f| f.text.starts_with("1 offered, and not answered")), "{found:?}");
    listing.families[0].lost_wakeups = 1;
    let found = process::examine(me, &listing.families);
    assert!(found.iter().any(|f| f.about == "wake-ups" && f.verdict == Verdict::Bad));
}

#[test]
fn what_the_shim_itself_is_like_is_told() {
    let me = std::process::id();
    for (state, shim, verdict, word) in [
        (State::Disabled, "0.1.0", Verdict::Bad, "DP_DISABLE"),
        (State::Unreadable, "0.0.1", Verdict::Bad, "layout"),
        (State::On, "0.0.1", Verdict::Note, "0.0.1"),
        (State::Idle, env!("CARGO_PKG_VERSION"), Verdict::Fine, env!("CARGO_PKG_VERSION")),
    ] {
        let mut listing = listing();
        let family = &mut listing.families[0];
        family.processes[0].pid = me;
        (family.state, family.shim) = (state, Some(shim.into()));
        let found = process::examine(me, &listing.families);
        assert!(found[0].verdict == verdict && found[0].text.contains(word), "{found:?}");
    }
}

/// The tree of an image whose one unit has these lines, and our drop-in if there are `more`.
fn tree_of(name: &str, lines: &str, more: Option<&str>) -> std::path::PathBuf {
    let root = std::env::temp_dir().join(format!("dp-doctor-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    let units = root.join("usr/lib/systemd/system");
    let drop_ins = root.join("etc/systemd/system/shop.service.d");
    [&units, &drop_ins].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    fs::write(units.join("shop.service"), format!("[Service]\nExecStart=/usr/bin/shop\n{lines}\n")).unwrap();
    if let Some(more) = more {
        fs::write(drop_ins.join("50-directed-point.conf"), format!("[Service]\n{more}\n")).unwrap();
    }
    root
}

/// The findings about a process of that unit that has a filter and another network namespace.
fn said_of_unit(name: &str, lines: &str, more: Option<&str>) -> Vec<String> {
    let root = tree_of(name, lines, more);
    let service = unit::Service::in_tree(&root, "shop.service");
    let hindrances = service.hindrances(&|_| None).unwrap();
    fs::remove_dir_all(root).unwrap();
    let both = Some((&service, &hindrances));
    let mut found = process::filters(both);
    found.push(process::network(both));
    assert!(found.iter().all(|f| f.verdict == Verdict::Note && f.way_out.is_some()));
    found.into_iter().map(|f| format!("{}: {} -> {}", f.about, f.text, f.way_out.unwrap())).collect()
}

#[test]
fn lines_of_a_units_file_that_are_in_the_way_are_named() {
    let said = said_of_unit("families", "RestrictAddressFamilies=AF_INET AF_INET6", None);
    assert_eq!(said.len(), 3, "{said:?}");
    for (said, family) in said.iter().zip(["AF_UNIX", "AF_NETLINK"]) {
        assert!(
            said.starts_with("unit: shop.service, RestrictAddressFamilies=: ") && said.contains(family),
            "{said}"
        );
        assert!(
            said.contains(&format!("-> dp enable shop.service adds RestrictAddressFamilies={family};")),
            "{said}"
        );
    }
    assert!(said[2].contains("another network namespace") && !said[2].contains("shop"), "{said:?}");

    let said = said_of_unit("calls", "SystemCallFilter=~memfd_create ptrace\nPrivateNetwork=yes", None);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("shop.service, SystemCallFilter=")
            && said[0].contains("adds SystemCallFilter=memfd_create;")
    );
    assert!(
        said[1].contains("shop.service has PrivateNetwork=") && said[1].contains("JoinsNamespaceOf="),
        "{said:?}"
    );
}

#[test]
fn a_unit_that_leaves_what_is_needed_is_said_to() {
    let harmless = "MemoryDenyWriteExecute=yes\nRestrictAddressFamilies=~AF_PACKET";
    let opened = "RestrictAddressFamilies=AF_INET";
    let ours = "RestrictAddressFamilies=AF_UNIX\nRestrictAddressFamilies=AF_NETLINK";
    for (name, lines, more) in [("harmless", harmless, None), ("enabled", opened, Some(ours))] {
        let said = said_of_unit(name, lines, more);
        assert!(
            said[0].starts_with(
                "seccomp: a filter of system calls holds for it; the lines of shop.service leave"
            ),
            "{said:?}"
        );
    }
}

#[test]
fn a_process_belongs_to_the_service_of_its_control_group() {
    assert_eq!(unit::named(b"/system.slice/shop.service"), Some(("shop.service", false)));
    assert_eq!(
        unit::named(b"/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service"),
        Some(("shop.service", true))
    );
    assert_eq!(unit::named(b"/user.slice/user-1000.slice/user@1000.service/init.scope"), None);
    assert_eq!(unit::named(b"/user.slice/user-1000.slice/session-1.scope"), None);
    assert_eq!(unit::named(b"/"), None);
}

#[test]
fn a_name_that_nobody_has_is_an_error() {
    let nobody = of("no-such-program-here", &listing()).map(|_| ());
    assert!(nobody.unwrap_err().contains("no-such-program-here"));
    assert!(of("4194305", &listing()).is_err(), "above pid_max");
    for no_program in ["/", "/etc/passwd"] {
        let why = of(no_program, &listing()).map(|_| ()).unwrap_err();
        assert!(why.contains("no file that can be executed"), "{why}");
    }
    let idle = of("/bin/false", &listing()).ok().unwrap();
    assert!(idle[0].pid.is_none() && idle[0].findings[0].verdict == Verdict::Fine);
}

/// Where others may execute files, if possible with the rights that those say; /tmp is often mounted otherwise.
fn folder() -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    use nix::sys::statvfs::{statvfs, FsFlags};
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let all = [std::env::temp_dir(), "/var/tmp".into(), beside];
    let gives = |path: &&std::path::PathBuf| {
        let reached =
            |of: &std::path::Path| of.metadata().is_ok_and(|meta| meta.permissions().mode() & 1 != 0);
        let flags = statvfs(path.as_path()).map(|of| of.flags());
        flags.is_ok_and(|flags| !flags.intersects(FsFlags::ST_NOSUID | FsFlags::ST_NOEXEC))
            && path.ancestors().all(reached)
    };
    all.iter().find(gives).unwrap_or(&all[0]).clone()
}

/// Told where the summary of tests is.
fn skip(why: &str) {
    eprintln!("SKIP: dp doctor: {why}");
    if let Some(file) = std::env::var_os("DP_SKIPS") {
        let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
        std::io::Write::write_all(&mut file, format!("SKIP: dp doctor: {why}\n").as_bytes()).unwrap();
    }
}

/// A copy of sleep(1) that runs until this is dropped.
struct Sleeper(std::path::PathBuf, std::process::Child);

impl Sleeper {
    /// `prepare` is told of the file before it runs; as this user and group.
    fn new(name: &str, id: Option<u32>, prepare: impl Fn(&std::path::Path)) -> Sleeper {
        use std::os::unix::process::CommandExt;
        let path = folder().join(format!("{name}-{}", std::process::id()));
        std::fs::copy("/bin/sleep", &path).unwrap();
        prepare(&path);
        let mut command = std::process::Command::new(&path);
        command.arg("60");
        if let Some(id) = id {
            command.uid(id).gid(id);
        }
        // A child that another test is just starting has the copy open for writing until it is another program.
        for _ in 0..1000 {
            match command.spawn() {
                Ok(child) => return Sleeper(path, child).named(),
                Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{} stays open for writing", path.display())
    }

    /// A new program has its name a moment after its caller is told that it was started.
    fn named(self) -> Sleeper {
        let name = self.0.file_name().unwrap().as_encoded_bytes();
        let name = &name[..name.len().min(15)];
        for _ in 0..1000 {
            if std::fs::read(format!("/proc/{}/comm", self.pid())).unwrap().starts_with(name) {
                return self;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{} has another name", self.0.display())
    }

    /// Whether the kernel has given it more rights than its caller has: AT_SECURE, which is what the loader goes by.
    fn has_more_rights(&self) -> bool {
        let vector = std::fs::read(format!("/proc/{}/auxv", self.pid())).unwrap();
        let words: Vec<_> =
            vector.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        words.chunks_exact(2).any(|pair| pair[0] == libc::AT_SECURE && pair[1] != 0)
    }

    fn pid(&self) -> u32 {
        self.1.id()
    }

    fn text(&self) -> String {
        process::examine(self.pid(), &[])[0].text.clone()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.1.kill();
        let _ = self.1.wait();
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_program_that_runs_is_found_by_its_whole_name_and_by_its_path() {
    let sleeper = Sleeper::new("dp-sleeper-with-a-long-name", None, |_| {});
    let name = sleeper.0.file_name().unwrap().to_str().unwrap();
    let path = sleeper.0.to_str().unwrap();
    wait_for_words(sleeper.pid(), name);
    for whom in [name, path, "dp-sleeper-with-a-long-*", "dp-sleeper-with", &name[..15]] {
        let found = of(whom, &listing()).unwrap_or_else(|why| panic!("{whom}: {why}"));
        assert!(found.iter().any(|of| of.pid == Some(sleeper.pid())), "{whom}");
    }
    assert!(of("dp-sleeper-wit", &listing()).is_err(), "it is not that long");
    let other = format!("{name}x");
    assert!(of(&other, &listing()).is_err(), "it begins alike");
}

/// A process executes its program a moment before it has its words.
fn wait_for_words(pid: u32, word: &str) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains(word) {
        assert!(std::time::Instant::now() < end, "{word}: not among its words");
    }
}

#[test]
fn a_script_that_runs_is_found_by_its_path() {
    use std::process::{Command, Stdio};
    let folder = std::env::temp_dir();
    let name = format!("dp-script-{}", std::process::id());
    let script = folder.join(&name);
    std::fs::write(&script, "#!/bin/sh\nread word\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let whom = script.to_str().unwrap();
    let idle = of(whom, &listing()).ok().unwrap();
    assert_eq!(idle[0].pid, None);
    // By the words that the kernel would give. It executes no file that a child of another test still has open for writing.
    for started in [whom, &name] {
        let mut command = Command::new("/bin/sh");
        let mut child = command.arg(started).current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
        wait_for_words(child.id(), started);
        let found = of(whom, &listing()).ok().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found.iter().map(|of| of.pid).collect::<Vec<_>>(), [Some(child.id())], "{started}");
    }
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn who_only_reads_a_script_does_not_execute_it() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    let folder = std::env::temp_dir();
    let script = folder.join(format!("dp-read-script-{}", std::process::id()));
    let whom = script.to_str().unwrap();
    let found = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        wait_for_words(child.id(), whom);
        let found = of(whom, &listing()).ok().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        found.iter().any(|of| of.pid == Some(child.id()))
    };
    for line in ["#!/bin/sh", "#! /bin/sh -u", "#!/usr/bin/env sh", "#!/usr/bin/env -S VALUE=1 sh -u"] {
        std::fs::write(&script, format!("{line}\nread word\n")).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(found("sh", &[whom]) && found("sh", &["-u", whom, "word"]), "{line}: it executes it");
        assert!(!found("tail", &["-f", whom]), "{line}: another program");
        assert!(!found("sh", &["/dev/stdin", whom]), "{line}: another script");
    }
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn of_a_process_with_more_rights_than_its_caller_that_is_said() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        return skip("somebody with more rights takes root");
    }
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let setuid = Sleeper::new("dp-setuid", Some(65534), |path| mode(path, 0o4755));
    if !setuid.has_more_rights() {
        return skip("no file gives rights here: all folders are nosuid, or no_new_privs is set");
    }
    assert!(
        setuid.text().contains("is setuid (user 0), so the loader ignores the shim"),
        "{}",
        setuid.text()
    );
    let refused = std::cell::Cell::new(false);
    let capable = Sleeper::new("dp-capable", Some(65534), |path| {
        mode(path, 0o755);
        match dp_edge::sys::xattr::set(path, c"security.capability", &NET_BIND_SERVICE) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => refused.set(true),
            set => set.unwrap(),
        }
    });
    if refused.get() {
        return skip("no file can be given capabilities here: that takes CAP_SETFCAP");
    }
    assert!(capable.text().contains("has file capabilities"), "{}", capable.text());
    // For root such a file is as any other; for those who will run it, it is not.
    let [of_root, of_file] = [process::examine(std::process::id(), &[]), process::of_file(&capable.0, true)];
    assert!(of_root[0].text.contains("started without the shim"), "{of_root:?}");
    assert!(
        of_file[0].verdict == Verdict::Note && of_file[0].text.contains("has file capabilities"),
        "{of_file:?}"
    );
    let plain = Sleeper::new("dp-plain", Some(65534), |path| mode(path, 0o755));
    assert!(plain.text().contains("started without the shim"), "{}", plain.text());
}

/// cap_net_bind_service+ep, as setcap(8) writes it: revision 2, effective; the permitted set first.
const NET_BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn names_cannot_steer_the_terminal() {
    let findings = vec![Finding::bad("program", "/tmp/\x1b]0;x is static", "\x1b[2J")];
    let text = told(&[Examined { what: "a\x1b[2J".into(), pid: None, findings }]);
    assert!(text.starts_with("a?[2J\n") && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn names_cannot_add_lines() {
    let sleeper = Sleeper::new("a\n  ok", None, |_| {});
    let name = process::name(sleeper.pid());
    assert!(name.starts_with("a?  ok-"), "{name:?}");
    // And what is a file's, or a family's.
    let findings = vec![Finding::bad("program", "/tmp/a\n  ok    shim: x is static", "b\nc")];
    let text = told(&[Examined { what: "/tmp/a\nb".into(), pid: None, findings }]);
    assert_eq!(text, "/tmp/a?b\n  BAD   program: /tmp/a?  ok    shim: x is static\n        -> b?c\n");
}

#[test]
fn json_has_the_documented_fields() {
    let findings = vec![Finding::bad("program", "it is static", "none"), Finding::fine("shim", "0.1.0")];
    let examined = [Examined { what: "redis-server (71)".into(), pid: Some(71), findings }];
    let listing = listing();
    let printed = serde_json::to_value(Diagnosis::of(&examined, None)).unwrap();
    let expected = serde_json::json!({
        "version": 1, "dp": env!("CARGO_PKG_VERSION"),
        "examined": [{"what": "redis-server (71)", "pid": 71, "findings": [
            {"verdict": "bad", "about": "program", "text": "it is static", "way_out": "none"},
            {"verdict": "fine", "about": "shim", "text": "0.1.0", "way_out": null},
        ]}],
    });
    assert_eq!(printed, expected);
    let report = serde_json::to_value(Diagnosis::of(&examined, Some(&listing))).unwrap();
    assert!(report["rules"].is_object() && report["logs"].is_array(), "{report}");
    for json in [printed, report] {
        // These are dp-ls(1)'s and dp-rules(1)'s.
        crate::page::documents(include_str!("../../../../man/dp-doctor.1"), &json, &["listing", "lines"]);
    }
}

/// The findings for a process that made the calls of `prepare` and then became sleep(1). The doctor is told that it has the shim.
fn prepared(prepare: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> Vec<Finding> {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("/bin/sleep");
    command.arg("60");
    // SAFETY: each of these makes system calls and nothing else.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn().unwrap();
    let mut families = listing().families;
    (families[0].processes[0].pid, families[0].shim) = (child.id(), Some(env!("CARGO_PKG_VERSION").into()));
    let found = process::examine(child.id(), &families);
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

fn done(call: i32) -> std::io::Result<()> {
    if call < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[test]
fn the_surroundings_of_a_process_are_told() {
    let limited = |limit, to| {
        move || {
            let limits = libc::rlimit { rlim_cur: to, rlim_max: to };
            // SAFETY: plain data, which the call reads.
            done(unsafe { libc::setrlimit(limit, &limits) })
        }
    };
    let ring = || {
        let parameters = [0u8; 120];
        // SAFETY: memory as long as the call's structure, and numbers.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_ptr()) } as i32;
        done(fd)?;
        // SAFETY: numbers: the program has it, too.
        done(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })
    };
    let filter = || {
        let allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
        // SAFETY: numbers, and a filter that outlives the calls.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        // SAFETY: as above.
        done(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) })
    };
    // SAFETY: a number.
    let namespace = || done(unsafe { libc::unshare(libc::CLONE_NEWNET) });
    let about = |found: &[Finding], about: &str| {
        found.iter().find(|finding| finding.about == about).map(|finding| finding.text.clone())
    };
    let quiet = prepared(limited(libc::RLIMIT_NOFILE, crate::needs::FEW_FILES));
    for surrounding in ["limits", "io_uring", "network"] {
        assert_eq!(about(&quiet, surrounding), None, "{quiet:?}");
    }
    let found = prepared(limited(libc::RLIMIT_NOFILE, 100));
    assert_eq!(about(&found, "limits").as_deref(), Some("it may have 100 descriptors"), "{found:?}");
    let found = prepared(limited(libc::RLIMIT_AS, 1 << 30));
    assert_eq!(about(&found, "limits").as_deref(), Some("it may have 1024 MiB of addresses"), "{found:?}");
    let found = prepared(filter);
    assert!(about(&found, "seccomp").is_some_and(|text| text.contains("a filter")), "{found:?}");
    // SAFETY: null memory, which the kernel refuses, if it makes rings at all.
    let refused = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, 0) };
    assert_eq!(refused, -1);
    if matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
        skip("no io_uring may be made here");
    } else {
        let found = prepared(ring);
        assert!(about(&found, "io_uring").is_some_and(|text| text.contains("has one")), "{found:?}");
    }
    if !nix::unistd::geteuid().is_root() {
        return skip("a network namespace takes root");
    }
    let found = prepared(namespace);
    assert!(about(&found, "network").is_some_and(|text| text.contains("another network")), "{found:?}");
}
