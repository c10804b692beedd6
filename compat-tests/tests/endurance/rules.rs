//! What rules do to connections: the four actions at both ends, how channels are to be, rules that running programs read anew.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, TempDir};
use compat_tests::{programs, Combo, Job, Side};

use crate::product;

/// Both sides, each with rules of its own.
struct Run {
    folder: TempDir,
    server: Job,
    client: Job,
}

impl Run {
    fn start(combo: &Combo, arguments: &[&str], server: &str, client: &str) -> Run {
        let folder = TempDir::new();
        let program = programs::c("demands");
        let side = |role: &str, rules: &str| {
            let variable = if rules.starts_with('/') { "DP_CONFIG" } else { "DP_RULES" };
            product::start(combo, &program, role, folder.path(), arguments, &[(variable, rules.to_string())])
        };
        Run { server: side("server", server), client: side("client", client), folder }
    }

    /// The client's transcript, and how many connections the server was given.
    fn told(self) -> (String, Option<u64>) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let client = self.client.finish(deadline);
        let server = self.server.finish(deadline);
        assert!(server.ok() && client.ok(), "{}\n{}", server.text(), client.text());
        let count = fs::read_to_string(self.folder.file("port.served")).ok();
        (client.transcript, count.and_then(|text| text.trim().parse().ok()))
    }

    fn marked(&self, name: &str) -> bool {
        self.folder.file(&format!("port.{name}")).exists()
    }

    /// In one step: the program reads it as soon as it is there.
    fn mark(&self, name: &str) {
        fs::write(self.folder.file("port.new"), "1\n").expect("the mark");
        fs::rename(self.folder.file("port.new"), self.folder.file(&format!("port.{name}")))
            .expect("the mark");
    }
}

/// What the client says, and how many connections came in.
fn of(combo: &Combo, arguments: &[&str], server: &str, client: &str) -> (String, Option<u64>) {
    Run::start(combo, arguments, server, client).told()
}

const ALL: &str = "channel any *";

fn shim_on(server: bool, client: bool) -> Combo {
    let side = |on| if on { Side::Shim } else { Side::Native };
    Combo::new("rules", side(server), side(client))
}

#[test]
fn a_connect_that_is_refused_fails_and_nobody_hears_of_it() {
    let both = Combo::shimmed();
    for mode in ["blocking", "nonblocking"] {
        let got = of(&both, &[mode], ALL, "refuse connect *");
        assert_eq!(got, ("connect: ECONNREFUSED\n".into(), Some(0)), "{mode}");
    }
    // Also by a socket that was to be another connection before.
    let got = of(&both, &["elsewhere"], ALL, "refuse connect 127.0.0.1; channel any *");
    assert_eq!(got, ("connect: ECONNREFUSED\n".into(), Some(0)));
    // `dp ls` tells it, though there never was a connection.
    let run = Run::start(&both, &["blocking", "1", "0", "1"], ALL, "refuse connect *");
    await_that("the connect", Duration::from_secs(20), || run.marked("client-done"));
    let client = product::family(run.client.pid().as_raw()).map(|family| family.on_tcp);
    run.mark("looked");
    run.told();
    assert_eq!(client.and_then(|all| all.get("refused").copied()), Some(1));
    // By program and direction.
    let got = of(&both, &["blocking"], ALL, "refuse connect * program=other; refuse listen *; channel any *");
    assert_eq!(got, ("connect: 0\nexchanges: 0\n".into(), Some(1)));
    let name = "refuse connect * program=deman*";
    assert_eq!(of(&both, &["again"], ALL, name).0, "connect: ECONNREFUSED\nonce more: ECONNREFUSED\n");
}

#[test]
fn a_connection_that_is_refused_where_it_comes_in_is_reset_and_not_shown() {
    for mode in ["blocking", "named"] {
        for client in [true, false] {
            let got = of(&shim_on(true, client), &[mode], "refuse listen *", ALL);
            assert!(
                got.0.starts_with("connect: 0\nexchanges: E") && got.1 == Some(0),
                "{mode}, client's shim {client}: {got:?}"
            );
        }
    }
}

#[test]
fn a_channel_that_is_demanded_is_made() {
    let _turn = product::alone();
    for (server, client) in
        [(ALL, "require connect *"), ("require listen *", ALL), ("require any *", "require any *")]
    {
        for mode in ["blocking", "nonblocking"] {
            let run = Run::start(&Combo::shimmed(), &[mode, "1000", "0", "1"], server, client);
            await_that("the exchanges", Duration::from_secs(20), || run.marked("client-done"));
            let channels = product::channels(run.client.pid().as_raw());
            run.mark("looked");
            assert_eq!(run.told().0, "connect: 0\nexchanges: 0\n", "{server} / {client}, {mode}");
            assert_eq!(channels, 1, "{server} / {client}, {mode}");
        }
    }
}

#[test]
fn a_connect_whose_channel_cannot_be_fails_with_an_error_of_its_own() {
    for mode in ["blocking", "nonblocking"] {
        let failed = "connect: EPROTONOSUPPORT\n";
        assert_eq!(
            of(&shim_on(false, true), &[mode], ALL, "require connect *").0,
            failed,
            "{mode}, no shim there"
        );
        assert_eq!(
            of(&Combo::shimmed(), &[mode], "tcp any *", "require connect *").0,
            failed,
            "{mode}, rules there"
        );
    }
    let again = "connect: EPROTONOSUPPORT\nonce more: EPROTONOSUPPORT\n";
    assert_eq!(of(&shim_on(false, true), &["again"], ALL, "require connect *").0, again);
    // Where nobody listens, that is what the program is told.
    let refused = "connect: ECONNREFUSED\n";
    assert_eq!(of(&Combo::shimmed(), &["nobody"], ALL, "require connect *").0, refused);
}

/// The client's end is in no hurry: some calls, and two seconds.
#[test]
fn a_connection_that_came_in_without_an_offer_ends() {
    let got = of(&shim_on(true, false), &["blocking", "100000", "9"], "require listen *", ALL);
    assert!(got.0.starts_with("connect: 0\nexchanges: E") && got.1 == Some(1), "{got:?}");
}

#[test]
fn rules_choose_by_user_and_control_group() {
    let own = nix::unistd::geteuid().as_raw();
    let said = |rules: &str| of(&Combo::shimmed(), &["blocking"], ALL, rules).0;
    let (refused, made) = ("connect: ECONNREFUSED\n", "connect: 0\nexchanges: 0\n");
    assert_eq!(said(&format!("refuse connect * user={own}; channel any *")), refused);
    assert_eq!(said(&format!("refuse connect * user={}; channel any *", own + 1)), made);
    assert_eq!(said("refuse connect * unit=no-such-unit; channel any *"), made);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !groups.lines().any(|line| line.starts_with("0::/") || line.contains(":name=systemd:/")) {
        return product::skip("rules: no control group is told here, so none can be chosen by");
    }
    assert_eq!(said("refuse connect * cgroup=/*; channel any *"), refused);
    assert_eq!(said("refuse connect * cgroup=/no/such/group; channel any *"), made);
}

/// Bytes of the ring in which the client sends, and how many channels it has, after a stream.
fn ring_of_a_stream(rules: &str, environment: &[(&str, String)]) -> Option<u64> {
    let folder = TempDir::new();
    let program = programs::c("stream");
    let mut all = environment.to_vec();
    all.push(("DP_RULES", rules.to_string()));
    let side =
        |role: &str| product::start(&Combo::shimmed(), &program, role, folder.path(), &["hold", "64"], &all);
    let (server, client) = (side("server"), side("client"));
    let marked = |name: &str| folder.file(&format!("port.{name}"));
    await_that("the stream", Duration::from_secs(20), || marked("client-done").exists());
    let found = product::family(client.pid().as_raw()).and_then(|f| f.connections.first()?.tx_ring_bytes);
    fs::write(marked("new"), "1\n").unwrap();
    fs::rename(marked("new"), marked("looked")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    for side in [client, server] {
        let ended = side.finish(deadline);
        assert!(ended.ok(), "{rules}: {}", ended.text());
    }
    found
}

#[test]
fn rings_are_as_long_as_the_rule_says_and_not_the_environment() {
    let _turn = product::alone();
    let environment = [("DP_RING", "16384".to_string()), ("DP_RING_LONG", "0".to_string())];
    assert_eq!(ring_of_a_stream("channel any *", &environment), Some(16 << 10));
    assert_eq!(ring_of_a_stream("channel any * ring=65536", &environment), Some(64 << 10));
    // For another port: nothing of it.
    assert_eq!(ring_of_a_stream("channel any *:1 ring=65536; channel any *", &environment), Some(16 << 10));
}

#[test]
fn the_first_offer_comes_after_as_many_calls_as_the_rule_says() {
    let _turn = product::alone();
    let channels = |rules: &str| {
        let run = Run::start(&Combo::shimmed(), &["blocking", "50", "0", "1"], rules, rules);
        await_that("the exchanges", Duration::from_secs(20), || run.marked("client-done"));
        let channels = product::channels(run.client.pid().as_raw());
        run.mark("looked");
        assert_eq!(run.told().0, "connect: 0\nexchanges: 0\n");
        channels
    };
    assert_eq!(channels("channel any * after=0"), 1);
    assert_eq!(channels("channel any * after=1000"), 0);
    assert_eq!(channels("channel any *:1 after=1000; channel any *"), 1);
}

fn reload(file: &Path) {
    let dp = programs::target_dir().join("release/dp");
    let said = Command::new(dp).args(["rules", "reload"]).arg(file).output().expect("dp");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn running_programs_read_rules_anew_when_they_are_told_and_not_before() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let file = folder.file("rules.conf");
    let config = file.display().to_string();
    fs::write(&file, "tcp any *\n").unwrap();
    let run = Run::start(&Combo::shimmed(), &["many"], &config, &config);
    let client = run.client.pid().as_raw();
    let channels = || product::channels(client);
    await_that("the first connection", Duration::from_secs(20), || run.marked("begun"));
    // Written, and nobody was told.
    fs::write(&file, "channel any *\n").unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(channels(), 0, "rules that nobody was told of");
    reload(&file);
    await_that("a channel", Duration::from_secs(10), || channels() > 0);
    // What cannot be read changes nothing.
    fs::write(&file, "tcp any\n").unwrap();
    fs::write(folder.file("rules.conf.reload"), "by hand").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let before = channels();
    await_that("another one", Duration::from_secs(10), || channels() > before);
    // And back.
    fs::write(&file, "tcp any *\n").unwrap();
    reload(&file);
    std::thread::sleep(Duration::from_millis(500));
    let before = channels();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(channels(), before, "connections begun after the rules were read");
    run.mark("enough");
    run.told();
}
