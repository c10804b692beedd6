use std::path::Path;

use super::*;

const SHIM: &str = "/usr/lib/dp/libdp_preload.so";

/// Groups as if systemd had these two.
fn groups(name: &str) -> Option<Vec<String>> {
    let words = match name {
        "@default" => "execve exit_group futex getegid geteuid getpid getppid getrandom gettid getuid mmap mprotect munmap \
                       nanosleep prlimit64 sched_getaffinity sched_yield",
        "@most" => "@network accept4 chdir clone close close_range dup3 epoll_ctl epoll_pwait eventfd2 fallocate fcntl fstat \
                    fstatfs ftruncate getdents64 ioctl kill lseek madvise memfd_create mremap munlock newfstatat openat ppoll \
                    prctl pread64 pwrite64 read readlinkat rt_sigaction rt_sigprocmask setsid sigaltstack statx tgkill wait4 \
                    write writev",
        "@network" => "bind connect getpeername getsockname getsockopt listen recvfrom recvmsg sendmsg sendto setsockopt \
                       shutdown socket",
        "@circle" => "@circle",
        _ => return None,
    };
    Some(words.split_whitespace().map(str::to_owned).collect())
}

fn unit(files: &[(&str, &str)]) -> Unit {
    let assignments =
        files.iter().flat_map(|(name, text)| text::assignments(text, Path::new(name))).collect();
    Unit { name: "x.service".into(), assignments, unread: Vec::new() }
}

fn plan_of(files: &[(&str, &str)]) -> Result<Plan, Vec<String>> {
    let home = Home::new(Some(Path::new("/")), false).unwrap();
    Plan::of(&home, &unit(files), Path::new(SHIM), &groups)
}

fn plan(service: &str) -> Result<Plan, Vec<String>> {
    plan_of(&[("/usr/lib/systemd/system/x.service", &format!("[Unit]\nA=b\n[Service]\n{service}"))])
}

/// What the drop-in assigns beside the environment.
fn opened(service: &str) -> Vec<String> {
    plan(service).unwrap_or_else(|why| panic!("{service}: {why:?}")).opened
}

fn refused(service: &str) -> String {
    plan(service).err().unwrap_or_else(|| panic!("{service}: it is not refused")).join("\n")
}

#[test]
fn a_unit_without_hardening_gets_one_line() {
    let plan = plan("ExecStart=/nowhere/x\n").unwrap();
    let lines: Vec<&str> = plan.text.lines().skip(1).collect();
    assert_eq!(lines, ["[Service]", "Environment=\"LD_PRELOAD=/usr/lib/dp/libdp_preload.so\""]);
    assert_eq!(version_of(&plan.text), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(version_of("[Service]\n"), None);
    assert!(plan.file.ends_with("etc/systemd/system/x.service.d/50-directed-point.conf"));
}

#[test]
fn most_hardening_needs_nothing() {
    let all = "ExecStart=/nowhere/x\nUser=www\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n\
               PrivateDevices=yes\nPrivateIPC=yes\nPrivateUsers=yes\nProtectProc=invisible\nProcSubset=pid\n\
               MemoryDenyWriteExecute=yes\nLimitMEMLOCK=0\nRestrictNamespaces=yes\nRestrictRealtime=yes\n\
               CapabilityBoundingSet=\nReadOnlyPaths=/\nInaccessiblePaths=/home /srv\nSystemCallFilter=@most\n\
               RestrictAddressFamilies=AF_UNIX AF_INET\nRestrictAddressFamilies=AF_NETLINK\nNoExecPaths=/\nExecPaths=/usr\n";
    assert_eq!(opened(all), [""; 0]);
}

#[test]
fn families_of_sockets_are_added_where_the_unit_leaves_them_out() {
    let unix = "RestrictAddressFamilies=AF_UNIX";
    let netlink = "RestrictAddressFamilies=AF_NETLINK";
    for (said, lines) in [
        ("AF_INET AF_INET6", &[unix, netlink][..]),
        ("none", &[unix, netlink]),
        ("AF_INET\nRestrictAddressFamilies=AF_UNIX", &[netlink]),
        ("AF_INET\nRestrictAddressFamilies=", &[]),
        ("~AF_PACKET", &[]),
        ("~AF_NETLINK AF_PACKET", &[netlink]),
        ("~AF_NETLINK\nRestrictAddressFamilies=AF_NETLINK", &[]),
        ("AF_UNIX AF_NETLINK\nRestrictAddressFamilies=~AF_UNIX", &[unix]),
    ] {
        assert_eq!(opened(&format!("RestrictAddressFamilies={said}\n")), lines, "{said}");
    }
}

#[test]
fn system_calls_are_added_where_the_filter_lacks_them_or_may() {
    let added = |said: &str| {
        let lines = opened(&format!("SystemCallFilter={said}\n"));
        lines
            .first()
            .map(|line| line.strip_prefix("SystemCallFilter=").unwrap().to_owned())
            .unwrap_or_default()
    };
    assert_eq!(added("@most"), "");
    assert_eq!(added("@most\nSystemCallFilter=~kill memfd_create:EPERM"), "kill memfd_create");
    assert_eq!(
        added("~@network"),
        "bind connect getpeername getsockname getsockopt listen recvfrom recvmsg sendmsg sendto \
                setsockopt shutdown socket"
    );
    assert_eq!(added("~@network\nSystemCallFilter=@network"), "");
    assert_eq!(added("~ptrace\nSystemCallFilter=\nSystemCallFilter=@most"), "");
    // What cannot be told is allowed anew.
    for unknown in ["@most\nSystemCallFilter=~@no-such", "~@circle"] {
        assert_eq!(added(unknown), crate::needs::CALLS.join(" "), "{unknown}");
    }
    let (unknown, always) = (added("@of-another-systemd"), groups("@default").unwrap().join(" "));
    let is = |list: &str, call| list.split(' ').any(|word| word == call);
    for call in crate::needs::CALLS {
        assert_ne!(is(&unknown, *call), is(&always, *call), "{call}");
    }
}

#[test]
fn a_list_that_a_later_file_begins_resets_or_narrows_is_refused() {
    const LATER: &str = "/etc/systemd/system/x.service.d/override.conf";
    let files = |unit: &str, later: &str| {
        plan_of(&[("x.service", &format!("[Service]\n{unit}\n")), (LATER, &format!("[Service]\n{later}\n"))])
    };
    for (unit, later) in [
        // Ours would be the first, and so a list of all that is allowed.
        ("", "SystemCallFilter=~@network kill"),
        ("", "SystemCallFilter=read"),
        ("", "RestrictAddressFamilies=~AF_NETLINK"),
        ("", "RestrictAddressFamilies=none"),
        ("SystemCallFilter=@most\nSystemCallFilter=", "SystemCallFilter=~memfd_create"),
        // Ours would be dropped.
        ("SystemCallFilter=~kill", "SystemCallFilter=\nSystemCallFilter=~kill"),
        ("RestrictAddressFamilies=AF_INET", "RestrictAddressFamilies=\nRestrictAddressFamilies=AF_INET"),
        ("RestrictAddressFamilies=AF_INET", "RestrictAddressFamilies=none"),
        // What ours allows would be forbidden again.
        ("SystemCallFilter=@most", "SystemCallFilter=~memfd_create"),
        ("SystemCallFilter=@most", "SystemCallFilter=~@no-such"),
        ("RestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies=~AF_NETLINK"),
        ("RestrictAddressFamilies=none", "RestrictAddressFamilies=~AF_UNIX"),
        ("NoExecPaths=/", "ExecPaths="),
        ("NoExecPaths=/", "ExecPaths=\nExecPaths=/usr/bin"),
        ("RootDirectory=/srv/jail", "BindReadOnlyPaths="),
        ("RootDirectory=/srv/jail", "BindPaths="),
    ] {
        let why = files(unit, later).err().unwrap_or_else(|| panic!("{unit} {later}: it is not refused"));
        let said = why.join("\n");
        assert!(said.contains(LATER) && said.contains("lower number than 50, as 40-override.conf"), "{said}");
    }
    // What holds against a later file, and what needs no line in view of it.
    for (unit, later, lines) in [
        ("SystemCallFilter=~kill", "SystemCallFilter=~ptrace", &["SystemCallFilter=kill"][..]),
        ("SystemCallFilter=~kill", "SystemCallFilter=kill", &[]),
        ("SystemCallFilter=~kill", "SystemCallFilter=", &[]),
        ("SystemCallFilter=read", "SystemCallFilter=\nSystemCallFilter=@most", &[]),
        ("", "SystemCallFilter=@most", &[]),
        ("", "SystemCallFilter=~ptrace", &[]),
        (
            "RestrictAddressFamilies=AF_UNIX",
            "RestrictAddressFamilies=AF_INET",
            &["RestrictAddressFamilies=AF_NETLINK"],
        ),
        ("NoExecPaths=/", "ExecPaths=/srv", &["ExecPaths=/usr/lib/dp"]),
        ("NoExecPaths=/", "ExecPaths=\nExecPaths=/usr", &[]),
    ] {
        let plan = files(unit, later).unwrap_or_else(|why| panic!("{unit} {later}: {why:?}"));
        assert_eq!(plan.opened, lines, "{unit} {later}");
    }
    // The same in a file that is read earlier.
    let earlier = ("/etc/systemd/system/x.service.d/40-override.conf", "[Service]\nSystemCallFilter=~kill\n");
    assert_eq!(plan_of(&[("x.service", "[Service]\n"), earlier]).unwrap().opened, ["SystemCallFilter=kill"]);
}

#[test]
fn a_root_of_its_own_and_folders_without_execution_get_the_library() {
    assert_eq!(opened("RootDirectory=/srv/jail\n"), ["BindReadOnlyPaths=/usr/lib/dp"]);
    assert_eq!(opened("RootDirectory=/\n"), [""; 0]);
    assert_eq!(opened("NoExecPaths=/\nExecPaths=/usr/sbin/x\n"), ["ExecPaths=/usr/lib/dp"]);
}

#[test]
fn what_would_hide_the_library_is_refused() {
    let why = refused("InaccessiblePaths=-/usr/lib/dp\n");
    assert!(why.contains("InaccessiblePaths=") && why.contains("below /usr"), "{why}");
    let home = Home::new(Some(Path::new("/")), false).unwrap();
    for (setting, shim) in [
        ("ProtectHome=yes", "/home/me/libdp_preload.so"),
        ("PrivateTmp=true", "/tmp/t/libdp_preload.so"),
        ("TemporaryFileSystem=/opt:ro", "/opt/dp/libdp_preload.so"),
    ] {
        let unit = unit(&[("x.service", &format!("[Service]\n{setting}\n"))]);
        let why = Plan::of(&home, &unit, Path::new(shim), &groups).err().unwrap();
        assert!(why[0].contains(setting.split('=').next().unwrap()), "{why:?}");
    }
    let read_only = unit(&[("x.service", "[Service]\nProtectHome=read-only\n")]);
    assert!(Plan::of(&home, &read_only, Path::new("/home/me/libdp_preload.so"), &groups).is_ok());
}

#[test]
fn what_is_preloaded_already_stays() {
    let preload = |files: &[(&str, &str)]| {
        let plan = plan_of(files).unwrap_or_else(|why| panic!("{why:?}"));
        plan.text.lines().find(|line| line.starts_with("Environment=")).unwrap().to_owned()
    };
    let joined = format!("Environment=\"LD_PRELOAD={SHIM}:/usr/lib/libjemalloc.so.2\"");
    let of = |line: &str| format!("[Service]\n{line}\n");
    for line in [
        "Environment=LD_PRELOAD=/usr/lib/libjemalloc.so.2",
        "Environment=A=b \"LD_PRELOAD=/usr/lib/libjemalloc.so.2\" C=d",
        "Environment=A=b \\\n# a comment\n  LD_PRELOAD=/usr/lib/libjemalloc.so.2",
        "Environment=LD_PRELOAD=/usr/lib/other.so\nEnvironment=\nEnvironment='LD_PRELOAD=/usr/lib/libjemalloc.so.2'",
    ] {
        assert_eq!(preload(&[("x.service", &of(line))]), joined, "{line}");
    }
    // An earlier drop-in counts, and the shim is not named twice.
    let twice = of(&format!("Environment=LD_PRELOAD={SHIM}:/usr/lib/libjemalloc.so.2"));
    assert_eq!(
        preload(&[("x.service", &of("User=x")), ("/etc/systemd/system/x.service.d/10-a.conf", &twice)]),
        joined
    );
}

#[test]
fn what_cannot_be_joined_safely_is_refused() {
    for (line, word) in [
        ("Environment=LD_PRELOAD=%h/lib.so", "specifier"),
        ("Environment=\"LD_PRELOAD=/a.so", "not closed"),
        ("Environment=LD_PRELOAD=/a\\x20b.so", "escape"),
        ("UnsetEnvironment=A LD_PRELOAD", "UnsetEnvironment"),
        ("PassEnvironment=LD_PRELOAD", "PassEnvironment"),
    ] {
        let why = refused(&format!("{line}\n"));
        assert!(why.contains(word), "{line}: {why}");
    }
    for (text, word) in [("Environment=LD_PRELOAD=/a.so", "lower number"), ("Environment=", "empties")] {
        let later = format!("[Service]\n{text}\n");
        let why = plan_of(&[("x.service", ""), ("/run/systemd/system/x.service.d/90-z.conf", &later)])
            .err()
            .unwrap();
        assert!(why[0].contains(word), "{text}: {why:?}");
    }
}

#[test]
fn a_program_that_takes_no_shim_is_refused() {
    let folder = std::env::temp_dir().join(format!("dp-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("static");
    // The header of a program for this machine, without a loader.
    let mut elf = std::fs::read("/proc/self/exe").unwrap()[..64].to_vec();
    elf[56..58].copy_from_slice(&[0, 0]);
    std::fs::write(&program, elf).unwrap();
    let why = refused(&format!("ExecStart=-!{} --flag\n", program.display()));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(why.contains("statically linked"), "{why}");
}

#[test]
fn what_a_line_cannot_change_is_noted() {
    let notes = |service: &str| plan(service).unwrap().notes.join("\n");
    assert!(notes("ExecStart=/x\nPrivateNetwork=yes\n").contains("network namespace"));
    assert!(notes("ExecStart=/x\nLimitNOFILE=100:200\n").contains("LimitNOFILE=100"));
    assert!(notes("ExecStart=/x\nLimitAS=1G\n").contains("LimitAS"));
    assert!(notes("ExecStart=/x\nEnvironment=DP_DISABLE=1\n").contains("DP_DISABLE"));
    let own = notes("ExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start\n");
    assert!(own.contains("/etc/postgresql/VERSION/CLUSTER/environment"), "{own}");
    assert_eq!(notes("ExecStart=/x\nPrivateNetwork=no\nLimitNOFILE=65536\n"), "");
}

#[test]
fn a_unit_that_stands_for_others_is_refused() {
    assert!(refused("Type=oneshot\nExecStart=/bin/true\nExecReload=/bin/true\n")
        .contains("list-dependencies x.service"));
    assert_eq!(opened("ExecStart=/bin/true\nExecStart=/nowhere/x\n"), [""; 0]);
}

#[test]
fn names_are_those_of_services() {
    for (text, name) in [
        ("nginx", "nginx.service"),
        ("postgresql@15-main", "postgresql@15-main.service"),
        ("a.b.service", "a.b.service"),
        ("pg@.service", "pg@.service"),
    ] {
        assert_eq!(service(text).as_deref(), Ok(name));
    }
    for text in [
        "",
        ".service",
        "../x",
        "a b",
        "x.socket",
        "x.timer",
        "*",
        "@x",
        "-x",
        "nginx/",
        "ü",
        &"x".repeat(256),
    ] {
        assert!(service(text).is_err(), "{text:?}");
    }
}

#[test]
fn drop_ins_are_those_that_systemd_reads() {
    use std::fs;
    let root = std::env::temp_dir().join(format!("dp-units-{}", std::process::id()));
    let put = |path: &str, text: &str| {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let service = |key: &str| format!("[Service]\nUser={key}\n");
    put("usr/lib/systemd/system/a-b@.service", &service("template"));
    put("usr/lib/systemd/system/a-b@.service.d/20-x.conf", &service("hidden by the same name"));
    put("etc/systemd/system/a-b@1.service.d/20-x.conf", &service("own"));
    put("run/systemd/system/a-.service.d/30-y.conf", &service("dash"));
    put("etc/systemd/system/service.d/10-all.conf", &service("all"));
    put("etc/systemd/system/a-b@2.service.d/15-no.conf", &service("another instance"));
    put("etc/systemd/system/a-b@1.service.d/50-directed-point.conf", &service("ours"));
    put("etc/systemd/system/a-b@1.service.d/60-note.txt", &service("no drop-in"));
    std::os::unix::fs::symlink(
        "/usr/lib/systemd/system/real.service",
        root.join("etc/systemd/system/alias.service"),
    )
    .unwrap();
    put("usr/lib/systemd/system/real.service", &service("real"));
    std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system/masked.service")).unwrap();
    std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system/a-b@1.service.d/70-no.conf"))
        .unwrap();
    let home = Home::new(Some(&root), false).unwrap();
    let unit = home.read("a-b@1.service").unwrap();
    assert_eq!(unit.unread, [""; 0]);
    let users: Vec<&str> = unit.list("User").iter().map(|a| a.value.as_str()).collect();
    let alias = home.read("alias.service").map(|unit| unit.name);
    let (masked, none) = (home.read("masked.service").unwrap_err(), home.read("none.service").unwrap_err());
    let enabled = home.enabled();
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(users, ["template", "all", "own", "dash"]);
    assert_eq!(alias.as_deref(), Ok("real.service"));
    assert!(masked.contains("masked") && none.contains("no such unit"), "{masked} {none}");
    assert_eq!(enabled.unwrap(), ["a-b@1.service"]);
    assert!(Home::new(Some(Path::new("/no/such/root")), false).is_err());
}
