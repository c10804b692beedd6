//! `dp rules`, and `dp run --dry-run`: what they say of rules, and what they do about them.

mod kit;
mod page;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output};

use kit::{skip, Folder};

const PAGE: &str = include_str!("../../../man/dp-rules.1");

/// A user's settings.
struct Home(Folder);

impl Home {
    fn new(name: &str) -> Home {
        let folder = Folder::new(name);
        fs::create_dir(folder.path.join("dp")).unwrap();
        Home(folder)
    }

    /// The user's own rules.
    fn file(&self, text: &str) -> PathBuf {
        let path = self.0.file("dp/dp-preload.conf", text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn dp(&self, line: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_dp")]).args(line.split_whitespace());
        command.env("XDG_CONFIG_HOME", &self.0.path).envs(environment.iter().copied());
        command.output().expect("timeout, of Debian's coreutils")
    }

    /// What it prints; it must succeed.
    #[track_caller]
    fn said(&self, line: &str) -> String {
        let out = self.dp(line, &[]);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// What it says when it fails.
    #[track_caller]
    fn failed(&self, line: &str, environment: &[(&str, &str)], code: i32) -> String {
        let out = self.dp(line, environment);
        assert_eq!(out.status.code(), Some(code), "{line}: {}", String::from_utf8_lossy(&out.stdout));
        assert!(out.stdout.is_empty(), "{line}");
        String::from_utf8(out.stderr).unwrap()
    }
}

#[test]
fn check_lists_rules_with_their_places_and_tells_what_is_wrong() {
    let home = Home::new("check");
    let path = home.file("# x\ntcp any localhost:1; dp any * program=a after=0\n");
    let at = path.display();
    let listed = format!("{at}:2:1: tcp any localhost:1\n{at}:2:22: channel any * program=a after=0\n");
    assert_eq!(home.said("rules check"), listed);
    assert_eq!(home.said(&format!("rules check {at}")), listed);
    let json: serde_json::Value = serde_json::from_str(&home.said("rules check --json")).unwrap();
    let rule = |rule: &str, action: &str, column: u32| serde_json::json!({"rule": rule, "action": action, "text": path, "line": 2, "column": column});
    let expected =
        [rule("tcp any localhost:1", "tcp", 1), rule("channel any * program=a after=0", "channel", 22)];
    assert_eq!(json, serde_json::json!({"version": 1, "rules": expected}));
    page::documents(PAGE, &json, &[]);
    home.file("tcp any *:1");
    assert!(home.said("rules check").ends_with("(added): channel any localhost\n"));
    home.file("tcp any *\n\n  tcp any ::1");
    assert_eq!(
        home.failed("rules check", &[], 1),
        format!("dp rules: {at}:3:11: ::1 has more than one colon; write an IPv6 address in brackets, as in [::1] or [::1]:6379\n")
    );
    assert!(home
        .failed("rules check", &[("DP_RULES", "tcp")], 1)
        .contains("DP_RULES:1:4: the direction is missing"));
    home.file("");
    assert!(home.failed("rules check", &[("DP_RING", "9")], 1).contains("DP_RING=9: too small"));
    let said = home.failed("rules check", &[("DP_LOG", "/nonexistent/dp")], 1);
    assert!(said.contains("DP_LOG: /nonexistent/dp: No such file or directory"), "{said}");
    assert!(home.failed("rules check /no/such/file", &[], 1).contains("/no/such/file: no such file"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
    assert!(home.failed("rules check", &[], 1).contains("others can write to it (mode 622)"));
    let out = home.dp("rules check", &[("DP_RULES", "tcp any *"), ("DP_RULEZ", "x")]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("is it DP_RULES?") && out.status.success());
}

#[test]
fn explain_names_the_rule_that_decides_and_what_the_others_are_for() {
    let home = Home::new("explain");
    let path = home.file(
        "tcp any localhost:5432\nrequire listen * unit=shop\nrefuse any * user=4242\nchannel connect localhost program=redis-* spin=0\n",
    );
    let at = path.display();
    assert_eq!(
        home.said("rules explain /usr/bin/redis-cli localhost:6379"),
        format!(
            "channel, spin=0\ndecided by {at}:4:1: channel connect localhost program=redis-* spin=0\n\
             passed over {at}:1:1: tcp any localhost:5432 (for other ports)\n\
             passed over {at}:2:1: require listen * unit=shop.service (for another direction)\n\
             passed over {at}:3:1: refuse any * user=4242 (for another user)\n\
             note: the server's end goes by its own rules: dp rules explain --listen SERVER 127.0.0.1:6379\n"
        )
    );
    // What it says to ask tells that this server has no rule for a channel.
    let server = home.said("rules explain --listen redis-server 127.0.0.1:6379");
    assert!(server.starts_with("tcp\nno rule matches"), "{server}");
    assert!(home.said("rules explain x [::1]:5432").starts_with("tcp\ndecided by"));
    assert!(home
        .said("rules explain x 192.0.2.1:5432")
        .starts_with("tcp\nno rule matches, so it stays on TCP\n"));
    for unit in ["shop.service", "shop"] {
        let said = home.said(&format!("rules explain --listen --unit {unit} x 192.0.2.1:80"));
        assert!(said.starts_with("require\ndecided by") && said.ends_with("(reason remote)\n"), "{said}");
    }
    assert!(home.said("rules explain --user 4242 x 192.0.2.1:80").starts_with("refuse\n"));
    assert!(home
        .said("rules explain --cgroup /a/shop.service/b --listen x 127.0.0.1:80")
        .starts_with("require\n"));
    let json: serde_json::Value =
        serde_json::from_str(&home.said("rules explain --json redis-cli 127.0.0.1:6379")).unwrap();
    assert_eq!((&json["action"], &json["because"]["line"]), (&"channel".into(), &4.into()));
    assert_eq!((&json["version"], &json["passed_over"][0]["is_for"]), (&1.into(), &"other ports".into()));
    page::documents(PAGE, &json, &[]);
    for wrong in ["x", "x 127.0.0.1", "x example.org:80", "--user no.such.user x 127.0.0.1:1"] {
        home.failed(&format!("rules explain {wrong}"), &[], 2);
    }
}

/// Where a list of rules is shown to whoever copies it: a channel that it is for needs the line for the server's end as well.
#[test]
fn the_lists_of_rules_that_are_documented_are_for_both_ends() {
    const FILE: &str = include_str!("../../../share/dp-preload.conf");
    const MANUAL: &str = include_str!("../../../man/dp-preload.conf.5");
    const OPERATIONS: &str = include_str!("../../../docs/OPERATIONS.md");
    /// What `printf` is given for a file, with this for the end of a line.
    fn printed<'a>(page: &'a str, end: &str) -> impl Iterator<Item = String> + 'a {
        let end = end.to_owned();
        let texts = page.split("\nprintf '").skip(1).filter_map(|rest| rest.split('\'').next());
        texts.map(move |text| text.replace(&end, "\n"))
    }
    // Of the file a comment that ends in a colon is followed by a list that begins with a hash.
    let of_file = |begin: &str| {
        let lines = FILE.lines().skip_while(|line| !line.contains(begin)).skip(1);
        let rules = lines
            .map_while(|line| line.strip_prefix('#').filter(|line| line.starts_with(char::is_alphabetic)));
        rules.map(|line| format!("{line}\n")).collect::<String>()
    };
    let examples = MANUAL.split(".Sh EXAMPLES").nth(1).and_then(|text| text.split(".Ed").next());
    let examples = examples.and_then(|text| text.split_once("-offset indent\n")).expect("a list").1;
    let (connect, listen) = ("rules explain", "rules explain --listen");
    let ends: [(String, &[[&str; 2]]); 6] = [
        (of_file("What is not to be a channel"), &[["x localhost:1", "y localhost:1"]]),
        (of_file("Or only what is"), &[["redis-cli localhost:6379", "redis-server localhost:6379"]]),
        (
            of_file("an end without the shim"),
            &[["--unit shop x localhost:11211", "memcached localhost:11211"]],
        ),
        (
            examples.to_owned(),
            &[
                ["redis-cli localhost:6379", "redis-server localhost:6379"],
                ["--unit shop x localhost:11211", "memcached localhost:11211"],
                ["--user root x localhost:9100", "agent localhost:9100"],
                ["--user 4242 x localhost:80", "nginx localhost:80"],
            ],
        ),
        (
            printed(PAGE, "\\en").next().expect("a list"),
            &[["--unit shop java localhost:5432", "postgres localhost:5432"]],
        ),
        (
            printed(OPERATIONS, "\\n").next().expect("a list"),
            &[["--unit nginx nginx localhost:6379", "--unit redis-server redis-server localhost:6379"]],
        ),
    ];
    let home = Home::new("documented");
    for (list, connections) in ends {
        assert!(!list.is_empty());
        home.file(&list);
        for [client, server] in connections {
            for question in [format!("{connect} {client}"), format!("{listen} {server}")] {
                let said = home.said(&question);
                let is_channel = said.starts_with("channel") || said.starts_with("require");
                assert!(is_channel, "{list}\n{question}: {said}");
            }
        }
    }
}

#[test]
fn reload_makes_the_mark_anew_where_the_rules_can_be_used() {
    let home = Home::new("reload");
    let path = home.file("tcp any *");
    let mark = home.0.path.join("dp/dp-preload.conf.reload");
    assert!(home.failed("rules reload", &[("DP_RULES", "tcp any *")], 1).contains("running programs keep"));
    assert!(!mark.exists());
    let named = home.0.path.join("dp/named.conf");
    fs::copy(&path, &named).unwrap();
    home.said(&format!("rules reload {}", named.display()));
    assert!(home.0.path.join("dp/named.conf.reload").exists() && !mark.exists());
    home.file("tcp anywhere *");
    assert!(home
        .failed(&format!("rules reload {}", path.display()), &[], 1)
        .contains("1:5: anywhere is not a direction"));
    assert!(!mark.exists());
    home.file("tcp any *");
    let stamp = || {
        home.said(&format!("rules reload {}", path.display()));
        let meta = fs::metadata(&mark).unwrap();
        (meta.ino(), meta.mtime(), meta.mtime_nsec())
    };
    assert_ne!(stamp(), stamp());
    let left: Vec<_> =
        fs::read_dir(home.0.path.join("dp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn explain_knows_link_local_addresses_of_this_host() {
    let home = Home::new("local");
    home.file("channel any localhost");
    let loopback = |address: &str| home.said(&format!("rules explain x {address}"));
    // Of an interface by its name, as ss prints it.
    assert!(loopback("[::1%lo]:80").starts_with("channel\n"));
    home.failed("rules explain x [fe80::1%no-such-dp]:80", &[], 2);
    let mut own = nix::ifaddrs::getifaddrs().expect("interfaces").filter_map(|i| {
        let v6 = *i.address?.as_sockaddr_in6()?;
        v6.ip().is_unicast_link_local().then(|| (v6.ip(), v6.scope_id(), i.interface_name))
    });
    let Some((ip, scope, name)) = own.next() else {
        return skip("dp rules explain: no interface has a link-local address");
    };
    for address in [format!("[{ip}%{scope}]:80"), format!("[{ip}%{name}]:80"), format!("[{ip}]:80")] {
        assert!(loopback(&address).starts_with("channel\n"), "{address}: {}", loopback(&address));
    }
    assert!(!loopback("[fe80::dead:beef:1]:80").starts_with("channel\n"));
}

/// The services' rules are in /etc: who forgot to be root is told that they heard nothing.
#[test]
fn a_mark_that_could_not_be_made_is_told() {
    let home = Home::new("missed");
    let path = home.file("tcp any *");
    let run = |line: &str| home.dp(line, &[]);
    // A folder is where the mark would be.
    let mark = home.0.path.join("dp/dp-preload.conf.reload");
    fs::create_dir(&mark).unwrap();
    let out = run(&format!("rules reload {}", path.display()));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("dp-preload.conf.reload: "), "{said}");
    let out = run("rules reload");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("dp-preload.conf.reload: "), "{said}");
}

#[test]
fn a_dry_run_tells_and_runs_nothing() {
    let home = Home::new("dry");
    let path = home.file("tcp any *:1");
    let shim = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let dry = |line: &str, environment: &[(&str, &str)]| {
        let mut all = environment.to_vec();
        all.push(("DP_SHIM", shim));
        home.dp(line, &all)
    };
    let marker = home.0.path.join("ran");
    let out = dry(&format!("run --dry-run touch {}", marker.display()), &[]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && !marker.exists(), "{said}");
    assert!(said.starts_with("program: /") && said.contains(&format!("shim: LD_PRELOAD={shim}\n")), "{said}");
    let rules =
        format!("rules: of {0}\n{0}:1:1: tcp any *:1\n(added): channel any localhost\n", path.display());
    assert!(said.ends_with(&rules), "{said}");
    let said = dry("run --dry-run --not *:9 -- touch", &[]).stdout;
    assert!(String::from_utf8(said)
        .unwrap()
        .ends_with("rules: of the options\ntcp any *:9\nchannel any localhost\n"));
    let code = |line, environment: &[(&str, &str)]| dry(line, environment).status.code();
    assert_eq!(code("run --dry-run no-such-program-at-all", &[]), Some(127));
    assert_eq!(code("run --dry-run touch", &[("DP_RULES", "?")]), Some(2));
    assert_eq!(code("run --dry-run touch", &[("DP_SPIN", "x")]), Some(2));
    assert_eq!(code("run --dry-run -- /etc/passwd", &[]), Some(126));
    assert_eq!(code("run --dry-run -- /etc", &[]), Some(126));
    let log = home.0.path.join("log");
    let log = log.to_str().unwrap();
    assert_eq!(code("run --dry-run touch", &[("DP_LOG", log)]), Some(0));
    assert!(!home.0.path.join("log").exists());
    assert_eq!(code("run --dry-run touch", &[("DP_LOG", &format!("{log}/log"))]), Some(2));
    assert_eq!(home.dp("run --dry-run touch", &[("DP_SHIM", "/nowhere")]).status.code(), Some(125));
    assert_eq!(code("run --dry-run touch", &[("DP_DISABLE", "1")]), Some(0));
}
