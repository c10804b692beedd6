//! Connections within this host by its other addresses (PROTOCOLS E10), in network namespaces that the tests make.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, needed, TempDir};
use compat_tests::{programs, Combo, Job};

use crate::product;
use crate::users::root;

/// A network namespace with a name, until it is dropped.
struct Host(String);

impl Host {
    /// Two that a cable joins: 10.78.0.1 and 10.78.0.2.
    fn two() -> [Host; 2] {
        let (host, other) = (Host::new("host"), Host::new("other"));
        host.ip(&format!("link add v0 type veth peer name v0 netns {}", other.0));
        for (host, address) in [(&host, "10.78.0.1/24"), (&other, "10.78.0.2/24")] {
            host.ip(&format!("address add {address} dev v0"));
            host.ip("link set v0 up");
        }
        [host, other]
    }

    fn new(name: &str) -> Host {
        let host = Host(format!("dp-{name}-{}", std::process::id()));
        ip(&["netns", "add", &host.0]);
        ip(&["-n", &host.0, "link", "set", "lo", "up"]);
        host
    }

    /// With a device, and addresses on it. Its other end has none.
    fn with_device() -> Host {
        let host = Host::new("host");
        host.ip("link add d0 type veth peer name d1");
        host.ip("link set d1 addrgenmode none up");
        for address in ["10.77.0.1/24", "10.77.0.2/24"] {
            host.ip(&format!("address add {address} dev d0"));
        }
        host.ip("address add fd77::1/64 dev d0 nodad");
        host.ip("link set d0 addrgenmode none");
        host.ip("address add fe80::77/64 dev d0 nodad");
        host.ip("link set d0 up");
        host
    }

    fn ip(&self, words: &str) {
        let mut all = vec!["-n", &self.0];
        all.extend(words.split(' '));
        ip(&all);
    }

    /// One side of the program, in here.
    fn start(&self, role: &str, folder: &Path, environment: &[(&str, &str)]) -> Job {
        self.start_one(&Combo::shimmed(), "addresses", role, &[], folder, environment)
    }

    fn start_one(
        &self,
        combo: &Combo,
        program: &str,
        role: &str,
        arguments: &[&str],
        folder: &Path,
        environment: &[(&str, &str)],
    ) -> Job {
        // Replaced by the program, whose number it has.
        let mut command = combo.server_command(&needed("ip", "iproute2"), folder);
        command.args(["netns", "exec", &self.0]).arg(programs::c(program)).arg(role).arg(folder.join("port"));
        command.args(arguments).env("COMPAT_WARM", "256").envs(environment.iter().copied());
        Job::start(role, command, folder)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

fn ip(words: &[&str]) {
    let done = Command::new(needed("ip", "iproute2")).args(words).status().expect("ip");
    assert!(done.success(), "ip {}", words.join(" "));
}

/// What `dp ls` says of the client's connection: `channel`, or why it is on TCP. The rules are the environment's.
fn becomes(server: &Host, client: &Host, environment: &[(&str, &str)]) -> [String; 2] {
    between(server, client, environment, |pids| pids.map(listed))
}

/// Runs `look` with the process numbers of both ends while their connection is open.
fn between<T>(
    server: &Host,
    client: &Host,
    environment: &[(&str, &str)],
    look: impl FnOnce([i32; 2]) -> T,
) -> T {
    let folder = TempDir::new();
    let mut jobs = [("server", server), ("client", client)]
        .map(|(role, host)| host.start(role, folder.path(), environment));
    let exchanged = folder.file("port.exchanged");
    await_that("the exchanges", Duration::from_secs(30), || {
        exchanged.exists() || jobs.iter_mut().any(|job| job.ended().is_some())
    });
    let said = look([0, 1].map(|n| jobs[n].pid().as_raw()));
    product::mark(&folder, "looked");
    let deadline = Instant::now() + Duration::from_secs(10);
    for (job, expected) in jobs.into_iter().zip(["the end came\n", "fine\n"]) {
        let ended = job.finish(deadline);
        assert!(ended.ok() && ended.transcript == expected, "{}", ended.text());
    }
    said
}

fn listed(pid: i32) -> String {
    match product::family(pid) {
        Some(family) if family.channels == 1 => "channel".to_owned(),
        Some(family) => {
            let reasons = family.connections.iter().filter_map(|c| c.reason.as_ref());
            reasons.chain(family.on_tcp.keys()).next().cloned().unwrap_or_default()
        }
        // Nothing has asked for one.
        None => "on TCP".to_owned(),
    }
}

const CHANNEL: [&str; 2] = ["channel"; 2];
/// What asks for more than there is.
const ALL: (&str, &str) = ("DP_RULES", "channel any *");

#[test]
fn any_address_of_this_host_is_as_good_as_the_loopback() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let host = Host::with_device();
    for (listen, connect) in [
        ("10.77.0.1", "10.77.0.1"),
        ("fd77::1", "fd77::1"),
        ("fe80::77%d0", "fe80::77%d0"),
        ("0.0.0.0", "10.77.0.2"),
        ("::", "10.77.0.1"),
        ("::", "fd77::1"),
        ("::", "fe80::77%d0"),
        ("10.77.0.1", "::ffff:10.77.0.1"),
    ] {
        let there = [("COMPAT_LISTEN", listen), ("COMPAT_CONNECT", connect)];
        assert_eq!(becomes(&host, &host, &there), CHANNEL, "{connect}, where {listen} is listened at");
    }
    let there = [("COMPAT_LISTEN", "10.77.0.1"), ("COMPAT_BIND", "10.77.0.2")];
    assert_eq!(becomes(&host, &host, &there), CHANNEL, "between two of them");
}

#[test]
fn an_address_that_comes_and_goes_is_this_hosts_meanwhile() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let host = Host::with_device();
    host.ip("address add 10.77.0.3/24 dev d0");
    assert_eq!(becomes(&host, &host, &[("COMPAT_LISTEN", "10.77.0.3")]), CHANNEL);
    host.ip("address delete 10.77.0.3/24 dev d0");
    host.ip("address add 10.77.0.4/24 dev d0");
    assert_eq!(becomes(&host, &host, &[("COMPAT_LISTEN", "10.77.0.4")]), CHANNEL);
}

/// A server that listens at `listen` until it is dropped, and a client that comes to addresses step by step.
struct Steps {
    folder: TempDir,
    server: Job,
    client: Job,
    step: usize,
}

impl Steps {
    fn start(
        combo: &Combo,
        [server, client]: [&Host; 2],
        listen: &str,
        addresses: &[&str],
        rules: &str,
    ) -> Steps {
        let folder = TempDir::new();
        let environment = [("COMPAT_LISTEN", listen), ("DP_RULES", rules)];
        let server = server.start_one(combo, "comings", "server", &["steps"], folder.path(), &environment);
        let arguments = [&["steps"], addresses].concat();
        let client = client.start_one(combo, "comings", "client", &arguments, folder.path(), &environment);
        Steps { folder, server, client, step: 0 }
    }

    /// Begins the next step.
    fn go(&mut self) {
        self.step += 1;
        product::mark(&self.folder, &format!("go-{}", self.step));
    }

    fn is_done(&mut self) -> bool {
        self.folder.file(&format!("port.done-{}", self.step)).exists() || self.client.ended().is_some()
    }

    /// The same, and waits for its end.
    fn next(&mut self) {
        self.go();
        await_that("the step", Duration::from_secs(20), || self.is_done());
    }

    fn families(&self) -> [Option<product::Family>; 2] {
        [&self.server, &self.client].map(|job| product::family(job.pid().as_raw()))
    }

    /// How many channels each has had.
    fn channels(&self) -> [u64; 2] {
        self.families().map(|family| family.map_or(0, |family| family.channels))
    }

    fn end(self) {
        product::mark(&self.folder, "looked");
        let ended = self.client.finish(Instant::now() + Duration::from_secs(20));
        assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    }
}

#[test]
fn an_address_that_comes_while_both_programs_run_is_this_hosts_from_then_on() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    for (listen, [first, second]) in [
        ("0.0.0.0", ["10.77.0.1", "10.77.0.9"]),
        ("::", ["fd77::1", "fd77::9"]),
        ("::", ["10.77.0.1", "10.77.0.9"]),
    ] {
        let host = Host::with_device();
        let mut steps = Steps::start(
            &Combo::shimmed(),
            [&host, &host],
            listen,
            &[first, second, second],
            "channel any localhost",
        );
        steps.next();
        assert_eq!(steps.channels(), [1, 1], "{first} where {listen} is listened at");
        let (family, length) = if second.contains(':') { ("-6 ", "64 nodad") } else { ("", "24") };
        host.ip(&format!("{family}address add {second}/{length} dev d0"));
        steps.next();
        assert_eq!(steps.channels(), [2, 2], "{second} where {listen} is listened at");
        // Gone and back: the client has an answer from before.
        host.ip(&format!(
            "{family}address delete {second}/{} dev d0",
            length.split(' ').next().expect("a length")
        ));
        host.ip(&format!("{family}address add {second}/{length} dev d0"));
        steps.next();
        assert_eq!(steps.channels(), [3, 3], "{second} once more");
        steps.end();
    }
}

/// As over TCP, for which the kernel has no way meanwhile: what was sent comes when the address is back.
#[test]
fn a_channel_whose_address_goes_goes_on_when_it_comes_back() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    for combo in [Combo::native(), Combo::shimmed()] {
        let host = Host::with_device();
        host.ip("address add 10.77.0.9/24 dev d0");
        let there = ["10.77.0.9", "127.0.0.1", ".", "127.0.0.1", "."];
        let mut steps = Steps::start(&combo, [&host, &host], "0.0.0.0", &there, "channel any localhost");
        steps.next();
        steps.next();
        let channels = |n| if combo.name == "native" { [0; 2] } else { [n; 2] };
        assert_eq!(steps.channels(), channels(2));
        host.ip("address delete 10.77.0.9/24 dev d0");
        steps.go();
        std::thread::sleep(Duration::from_millis(700));
        host.ip("address add 10.77.0.9/24 dev d0");
        await_that("the exchanges", Duration::from_secs(20), || steps.is_done());
        steps.next();
        assert_eq!(steps.channels(), channels(3), "{}", combo.name);
        steps.next();
        steps.end();
    }
}

#[test]
fn the_accepting_end_counts_what_comes_from_another_host_where_its_rules_ask_for_more() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let [host, other] = Host::two();
    for (rules, remote) in [("channel any *", 1), ("channel any localhost", 0)] {
        // It has a connection within its host first.
        let mut server = Steps::start(&Combo::shimmed(), [&host, &host], "0.0.0.0", &["127.0.0.1"], rules);
        server.next();
        let port = std::fs::read_to_string(server.folder.file("port")).expect("the port");
        let port = port.split_whitespace().nth(1).expect("a port").to_owned();
        let mut dial = Command::new(needed("ip", "iproute2"));
        dial.args(["netns", "exec", &other.0, "/usr/bin/python3", "-c"]);
        dial.arg("import socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)\n\
                  for i in range(9):\n    s.sendall(b'x' * 9)\n    assert s.recv(9, socket.MSG_WAITALL) == b'x' * 9\n");
        assert!(dial.args(["10.78.0.1", &port]).status().expect("python3").success());
        let [family, _] = server.families();
        let family = family.expect("a family");
        assert_eq!(
            (family.channels, family.on_tcp.get("remote").copied().unwrap_or(0)),
            (1, remote),
            "{rules}"
        );
        server.end();
    }
}

#[test]
fn what_rules_say_of_localhost_holds_for_each_of_its_addresses() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let host = Host::with_device();
    for rules in ["tcp any localhost", "channel any 127.0.0.0/8"] {
        let there = [("COMPAT_LISTEN", "10.77.0.1"), ("DP_RULES", rules)];
        assert_eq!(becomes(&host, &host, &there), ["on TCP"; 2], "{rules}");
    }
    let there = [("COMPAT_LISTEN", "10.77.0.1"), ("DP_RULES", "channel any 10.77.0.0/16")];
    assert_eq!(becomes(&host, &host, &there), CHANNEL);
}

#[test]
fn to_another_network_namespace_it_stays_on_tcp_and_dp_doctor_names_the_other_end() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let [host, other] = Host::two();
    assert_eq!(becomes(&host, &other, &[("COMPAT_LISTEN", "10.78.0.1"), ALL]), ["on TCP"; 2]);
    // By the default rules, which ask for no channel there.
    let (said, pids) = between(&host, &other, &[("COMPAT_LISTEN", "10.78.0.1")], |pids| {
        (pids.map(|pid| product::doctor(&[&pid.to_string()])), pids)
    });
    for (said, with) in said.iter().zip([pids[1], pids[0]]) {
        let line = format!("network: 1 open with addresses ({with}), in another network namespace");
        assert!(said.contains(&line) && said.contains("let both share one network namespace"), "{said}");
    }
}

#[test]
fn a_translated_connection_stays_on_tcp() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let host = Host::with_device();
    host.ip("route add default dev d0");
    host.ip("address add fd77::2/64 dev d0 nodad");
    let rules = "add table ip nat; add chain ip nat output { type nat hook output priority -100; }; \
        add rule ip nat output ip daddr 10.99.0.9 dnat to 10.77.0.1; \
        add rule ip nat output ip daddr 10.77.0.2 dnat to 10.77.0.1; \
        add rule ip nat output ip daddr 127.0.0.9 dnat to 127.0.0.1; \
        add table ip6 nat; add chain ip6 nat output { type nat hook output priority -100; }; \
        add rule ip6 nat output ip6 daddr fd77::2 dnat to fd77::1";
    let nft = needed("nft", "nftables");
    ip(&["netns", "exec", &host.0, &nft.display().to_string(), rules]);
    // The accepting end of one on the loopback asks when nobody has offered anything for a thousand calls and two seconds.
    for (to, address, calls, pace, reason) in [
        ("10.77.0.1", "10.99.0.9", "256", "0", "on TCP"),
        ("10.77.0.1", "10.77.0.2", "256", "0", "nat"),
        ("fd77::1", "fd77::2", "256", "0", "nat"),
        ("127.0.0.1", "127.0.0.9", "4000", "1", "nat"),
    ] {
        let slow = [("COMPAT_WARM", calls), ("COMPAT_PACE", pace)];
        let there = [&[("COMPAT_LISTEN", to), ("COMPAT_CONNECT", address), ALL], &slow[..]].concat();
        assert_eq!(becomes(&host, &host, &there), ["nat", reason], "{address}");
    }
    // A connection that netfilter follows and does not translate becomes a channel.
    let there = [("COMPAT_LISTEN", "127.0.0.1"), ALL];
    assert_eq!(becomes(&host, &host, &there), ["channel"; 2]);
}
