//! Twenty wrong inputs of each verb: every one ends at once, with a status that the manual has, and says in a sentence what is wrong,
//! by its name. Nothing is printed, nothing is written, and nothing panics.

mod kit;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kit::Folder;

/// Of each verb, command lines apart by `|`. A word in braces is what the error must name; where nothing of the line can be
/// named, what it must say stands behind `~`. DIR is a folder, FILE a file that is nothing in particular, GONE one that is not
/// there, in a folder that is not there.
const WRONG: &[(&str, &str)] = &[
    (
        "run",
        "~ PROGRAM | {--nosuch} true | --connect {300.1.1.1} true | --connect 127.0.0.1:{99999} true | --connect {x:y:z} true |
         --connect {127.0.0.1:} true | --connect {:80} true | --connect {::1:80} true | --connect 127.0.0.1:{80x} true |
         --connect 10.0.0.0/{33} true | --listen {host.example:1} true | --listen 127.0.0.1:{-1} true | --not {*:*:*} true |
         --not 127.0.0.1:{90-80} true | --not {1.2.3} true | --connect 127.0.0.1:80-{99999} true | --listen {:} true | --not {} true | --connect {127.0.0.1:80:} true |
         --connect {fe80::1%} true | --dry-run {nosuch-program-dp}",
    ),
    (
        "enable",
        "~ UNIT | {--nosuch} nginx | --root DIR {nosuch-dp} | --root GONE nginx ~ no such folder | --root FILE nginx ~ no such folder |
         --root DIR {a/b} | --root DIR {../x} | --root DIR {x.socket} | --root DIR {x.timer} | --root DIR {x..service.mount} |
         --now --dry-run nginx ~ --dry-run | --now --root DIR nginx ~ --root | --root {} | --root DIR {.service} | --root DIR {a b} |
         --root DIR {@.service} | --user-manager --root GONE nginx ~ no such folder | --root DIR {-x} | --dry-run=1 nginx ~ --dry-run |
         --root DIR {nosuch-dp@1}",
    ),
    (
        "disable",
        "~ UNIT | {--nosuch} nginx | --root GONE nginx ~ no such folder | --root FILE nginx ~ no such folder | --root DIR {a/b} |
         --root DIR {../x} | --root DIR {x.socket} | --root DIR {x.timer} | --root DIR {x.mount} | {--dry-run} nginx |
         --now --root DIR nginx ~ --root | --root {} | --root DIR {.service} | --root DIR {a b} | --root DIR {@.service} |
         --user-manager --root GONE nginx ~ no such folder | --root DIR {-x} | --now=1 nginx ~ --now | {--json} nginx | --root DIR ~ UNIT |
         --root DIR {nosuch-dp} | --all --root DIR nginx ~ --all",
    ),
    (
        "status",
        "{--nosuch} | --root GONE ~ no such folder | --root FILE ~ no such folder | --root DIR {a/b} | --root DIR {../x} |
         --root DIR {x.socket} | --root DIR {x.timer} | --root DIR {x.mount} | {--now} nginx | --root {} | --root DIR {.service} |
         --root DIR {a b} | --root DIR {@.service} | --user-manager --root GONE ~ no such folder | --root DIR {-x} | --json=1 ~ --json |
         one {two} | --root ~ --root | --json {x/y} | --root DIR one {two}",
    ),
    (
        "rules",
        "~ check | {nosuch} | check {GONE} | check {DIR} | check one {two} | check {--nosuch} | explain ~ PROGRAM | explain nginx ~ ADDRESS |
         explain nginx {x} | explain nginx {1.2.3.4} | explain nginx 1.2.3.4:{99999} | explain nginx {1.2.3:80} | explain nginx {::1:80x} |
         explain --user {nosuch-user-dp} nginx 127.0.0.1:80 | explain --group {nosuch-group-dp} nginx 127.0.0.1:80 |
         explain --file {GONE} nginx 127.0.0.1:80 | explain --unit x --cgroup /y nginx 127.0.0.1:80 ~ --cgroup |
         explain nginx 127.0.0.1:80 {three} | reload {GONE} | reload {DIR} | explain --file {DIR} nginx 127.0.0.1:80",
    ),
    (
        "ls",
        "{--nosuch} | --pid {x} | --pid {0} | --pid {-1} | --pid {99999999999} | --pid 1,{x} | --pid {1.5} | --pid ~ --pid | --program ~ --program |
         --state {open} | --state channel,{x} | --reason {nosuch} | --reason version,{x} | --json --json-lines ~ --json | --json --bytes ~ --bytes |
         --watch={x} | --watch={0} | --watch={-1} | --watch={1e99} | {stray} | --pid {} | --json=1 ~ --json",
    ),
    (
        "top",
        "{--nosuch} | -d {x} | -d {0} | -d {-1} | -d {1e99} | --sort {nosuch} | --view {nosuch} | --latency {x} | --latency {127.0.0.1} |
         --latency 127.0.0.1:{99999} | --pid {x} | --pid {0} | --state {open} | --reason {nosuch} | --batch={x} | --batch={-1} | --batch={0} |
         --json-lines ~ --batch | {stray} | -d ~ --interval | --batch=1 --json-lines=1 ~ --json-lines",
    ),
    (
        "doctor",
        "~ PID | {--nosuch} | {nosuch-program-dp} | {4194305} | {99999999999} | {-5} | {--pid} 1 | one {two} | --report ~ --report |
         {-x} | {18446744073709551616} | {nosuch/program} | {/nonexistent/program} | {DIR} | {FILE} | --json=1 1 ~ --json |
         --host=1 ~ --host | {} | {0} | --json {nosuch-program-dp} | {/dev/null}",
    ),
    (
        "capture",
        "{--nosuch} | --pid {x} | --pid {0} | --pid {-1} | --pid 1,{x} | --pid {99999999999} | --port {x} | --port {0} | --port {65536} |
         --port 80,{x} | --count {x} | --count {0} | --duration {x} | --duration {0} | --duration {-1} | --snaplen {x} | --snaplen {0} |
         --snaplen {-1} | --port {-1} | {stray} | --list --count 1 ~ --list",
    ),
    (
        "metrics",
        "{--nosuch} | --textfile {GONE} | --textfile {DIR} | --textfile ~ --textfile | --listen {x} | --listen {9780} | --listen {127.0.0.1} |
         --listen 127.0.0.1:{99999} | --listen {:9780} | --listen {::1:9780x} | --listen {unix:} | --listen unix:{GONE} | --listen unix:{DIR} |
         --listen unix:{FILE} | --listen {127.0.0.1:} | --listen {host.example:80} | --listen 127.0.0.1:0 --textfile x ~ --textfile | {stray} |
         --listen ~ --listen | --listen {240.0.0.1:9780} | --textfile {/dev/null}",
    ),
    (
        "send",
        "~ DPID | {--nosuch} 1 | {x} | {-1} | {65536} | 1/{x} | {0/5} | {65536/5} | 1/2/{3} | {/5} | 1/ ~ 1/ | --from {x} 5000 | --from {0} 5000 |
         --from {65536} 5000 | --timeout {x} 5000 | --timeout {0} 5000 | --timeout {-1} 5000 | --timeout {1e99} 5000 |
         --lines --length-prefixed 5000 ~ --lines | 5000 {stray} | {5000.5}",
    ),
    (
        "recv",
        "~ DPID | {--nosuch} 1 | {x} | {-1} | {65536} | {1/2} | {5000.5} | --count {x} 5000 | --count {-1} 5000 | --count {1.5} 5000 |
         --timeout {x} 5000 | --timeout {0} 5000 | --timeout {-1} 5000 | --timeout {1e99} 5000 | --pool {x} 5000 | --pool {-1} 5000 |
         --pool {1} 5000 | --pool {99999999999999} 5000 | --lines --length-prefixed 5000 ~ --lines | 5000 {stray}",
    ),
    (
        "device",
        "~ node | {nosuch} | ls {stray} | ls --json=1 ~ --json | ls {--nosuch} | node ~ NID | node {x} | node {0} | node {65535} | node {-1} |
         node 1 {stray} | attach ~ IFACE | attach one {two} | detach ~ IFACE | nart ~ NID | nart {x} eth0 02:00:00:00:00:01 |
         nart 1 eth0 {x} | nart 1 eth0 {02:00:00:00:00} | nart 1 eth0 {02:00:00:00:00:0g} | nart 0 --remove ~ 0 | nart 1 eth0 ~ MAC",
    ),
    (
        "bench",
        "~ required | {nosuch} | lat {--nosuch} | lat --ways {nosuch} | lat --ways tcp,{x} | lat --cores {x} | lat --cores {0} | lat --cores 0,{9999} |
         lat --cores 0,1,{2} | lat --size {x} | lat --size {0} | lat --size {-1} | lat --size 8,{x} | lat --seconds {x} | lat --seconds {0} |
         lat --seconds {-1} | lat --rounds {x} | lat --rounds {0} | bw --ring {x} | lat --netns nosuch-dp ~ --netns | idle --endpoints {x} | lat {stray} |
         lat --node {x} | lat --node {0} | lat --node 2 ~ gateway | lat --route udp ~ --node | lat --dpid 5000 ~ --dpid | serve --dpid {0} | serve ~ gateway |
         lat --node 2 --ways tcp ~ --ways",
    ),
    (
        "logp",
        "{--nosuch} | --ways {nosuch} | --ways tcp,{x} | --sizes {x} | --sizes {-1} | --sizes 8,{x} | --cores {x} | --cores {0} | --cores 0,{9999} |
         --cores 0,1,{2} | --window {x} | --window {0} | --senders {x} | --senders {0} | --netns nosuch-dp ~ --netns | --seconds {x} | --seconds {0} |
         --node {x} | --node 2 ~ gateway | --node 2 --senders 2 ~ --senders | --seconds {-1} | --plot {GONE.svg} | --plot x.{txt} | {stray}",
    ),
    (
        "cost",
        "{--nosuch} | --ways {nosuch} | --ways tcp,{x} | --packet {x} | --packet {0} | --packet {-1} | --longest {x} | --longest {0} | --cores {x} |
         --cores {0} | --cores 0,{9999} | --cores 0,1,{2} | --seconds {x} | --seconds {0} | --seconds {-1} | --plot {GONE.svg} | --plot x.{txt} |
         {stray} | --json=1 ~ --json | --ways {} | --quick=1 ~ --quick |
         --node {x} | --node 2 ~ gateway | --route udp ~ --node",
    ),
    (
        "graph",
        "~ check | {nosuch} | check ~ FILE | check {GONE} | check {DIR} | check {FILE} | check FILE {stray} | draw ~ FILE | draw {GONE} | draw {FILE} |
         draw FILE --out x.{txt} | live --only {nosuch} | live {GONE} | live --json --out x.svg ~ --out | compile ~ FILE | compile {GONE} |
         compile {FILE} | key ~ required | key {GONE} | key {FILE} | key {DIR} | live --out {GONE.svg}",
    ),
    (
        "node",
        "{--nosuch} | --graph {GONE} | --graph {DIR} | --graph {FILE} | --node {x} | --node {0} | --node {65535} | --node {-1} | --xdp {x} | --spin {x} |
         --spin {-1} | --spin {1000001} | --flows {x} | --flows {0} | --flows {10000001} | --memory {x} | --memory {0} | --memory {65537} |
         {stray} | --graph ~ --graph | --memory {-1} | --route ~ --route",
    ),
    (
        "completions",
        "~ SHELL | {nosuch} | {Bash} | {} | {sh} | {powershell} | {--nosuch} | bash {zsh} | bash {--nosuch} | {-x} | {bash,zsh} | {0} | {/bin/bash} |
         {tcsh} | {elvish} | {BASH} | fish {x} | zsh {bash} | {bashx} | {b}",
    ),
];

/// A folder with what the command lines name.
struct Place(Folder);

impl Place {
    fn new(verb: &str) -> Place {
        let place = Place(Folder::new(verb));
        fs::create_dir(place.0.path.join("dir")).expect("a folder");
        place.0.file("file", "[[nothing in particular\n");
        place
    }

    fn real(&self, word: &str) -> String {
        let path = |name: &str| self.0.path.join(name).display().to_string();
        let word = word.replace("GONE", &path("gone/gone"));
        word.replace("DIR", &path("dir")).replace("FILE", &path("file"))
    }

    /// All files and folders below the place.
    fn listed(&self) -> Vec<String> {
        fn below(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                found.push(entry.path().display().to_string());
                below(&entry.path(), found);
            }
        }
        let mut found = Vec::new();
        below(&self.0.path, &mut found);
        // Looking for endpoints makes the folder of the registry, as the manual says.
        found.retain(|path| !path.contains("/registry"));
        found.sort();
        found
    }
}

/// Runs it; `None`: it did not end in time, and was ended.
fn ended(command: &mut Command) -> Option<std::process::Output> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dp");
    let until = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("dp").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(child.wait_with_output().expect("dp"))
}

/// How `dp` answers one wrong command line otherwise than it should; none: as it should.
fn fault(place: &Place, verb: &str, line: &str) -> Option<String> {
    let (line, mut wanted) = match line.split_once('~') {
        Some((line, said)) => (line, Some(said.trim().to_owned())),
        None => (line, None),
    };
    let mut words = Vec::new();
    // Braces may have spaces in them, or nothing.
    let mut rest = line.trim();
    while !rest.is_empty() {
        let end = match (rest.find('{'), rest.find(' ')) {
            (Some(open), space) if space.is_none_or(|space| open < space) => {
                let close = rest.find('}').expect("a brace that closes");
                wanted = Some(place.real(&rest[open + 1..close]));
                close + 1
            }
            (_, Some(space)) => space,
            _ => rest.len(),
        };
        words.push(place.real(&rest[..end].replace(['{', '}'], "")));
        rest = rest[end..].trim_start();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command
        .arg(verb)
        .args(&words)
        .current_dir(&place.0.path)
        .env("DP_RUNTIME_DIR", place.0.path.join("registry"));
    command.env("DP_DRIVER", "user").env("HOME", &place.0.path).env_remove("XDG_CONFIG_HOME");
    let before = place.listed();
    let Some(out) = ended(&mut command) else { return Some("it does not end".into()) };
    let (said, printed) = (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    let wanted = wanted.expect("a word in braces, or behind ~");
    // An error in a file begins with the line and column where it stands.
    let sentence = said.starts_with("dp ")
        || said.starts_with(&format!("{wanted}:"))
        || said.starts_with("error: ")
        || said.contains("Usage: dp");
    let what = match out.status.code() {
        None => "a signal ended it",
        Some(1 | 2) if said.contains("panicked") => "it panicked",
        Some(1 | 2) if !sentence => "no sentence of ours",
        Some(1 | 2) if !said.contains(&wanted) => "what is wrong is not named",
        Some(1 | 2) if !printed.is_empty() => "it printed something",
        Some(1 | 2) if place.listed() != before => "it wrote something",
        Some(1 | 2) => return None,
        // As env(1) and shells say it.
        Some(126 | 127) if verb == "run" && said.contains(&wanted) => return None,
        Some(_) => "another status than the manual has",
    };
    Some(format!("{what} ({wanted}; {:?}): {said}{printed}", out.status.code()))
}

#[test]
fn twenty_wrong_inputs_of_each_verb_are_told() {
    let mut faults = Vec::new();
    for (verb, lines) in WRONG {
        let place = Place::new(verb);
        let lines: Vec<String> =
            lines.split('|').map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.len() >= 20, "{verb}: {}", lines.len());
        for line in lines {
            if let Some(what) = fault(&place, verb, &line) {
                faults.push(format!("dp {verb} {line}: {what}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
}

/// A verb that is not in the table is one that nobody tried.
#[test]
fn each_verb_is_in_the_table() {
    let help = Command::new(env!("CARGO_BIN_EXE_dp")).arg("--help").output().expect("dp");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // A description that takes several lines indents all but the first.
    let first = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let verbs: Vec<_> = first.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{help}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        assert!(WRONG.iter().any(|(known, _)| *known == verb), "{verb}");
    }
}

/// Command lines that print something, and by which status each may end where that cannot be written.
const PRINTING: &[(&str, i32)] = &[
    ("--help", 1),
    ("--version", 1),
    ("help ls", 1),
    ("run --dry-run true", 125),
    ("status --root DIR", 1),
    ("rules check", 1),
    ("rules check --json", 1),
    ("rules explain nginx 127.0.0.1:80", 1),
    ("rules explain --json nginx 127.0.0.1:80", 1),
    ("rules reload FILE", 1),
    ("ls --json", 1),
    ("top --batch=1 -d 0.1", 1),
    ("doctor --host", 1),
    ("doctor --json /bin/sh", 1),
    ("capture --list", 1),
    ("metrics", 1),
    ("graph live --json", 1),
    ("completions bash", 1),
];

#[test]
fn output_that_cannot_be_written_is_told_and_one_that_nobody_reads_is_not() {
    let place = Place::new("printing");
    fs::write(place.0.path.join("file"), "tcp any *\n").expect("a file");
    let dp = |line: &str, out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(line.split(' ').map(|word| place.real(word))).current_dir(&place.0.path);
        command.env("DP_RUNTIME_DIR", place.0.path.join("registry")).env("DP_DRIVER", "user");
        command.env("DP_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        command.env("HOME", &place.0.path).env_remove("XDG_CONFIG_HOME");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn().expect("dp");
        let out = child.wait_with_output().expect("dp");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let mut faults = Vec::new();
    for (line, status) in PRINTING {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let (code, said) = dp(line, full.into());
        // A command may print nothing, and then nothing failed; help is never empty.
        let nothing = code == Some(0) && !line.contains("help") && !line.contains("version");
        let told = said.contains("standard output: No space left");
        if said.contains("panicked") || code != Some(*status) && !nothing || told != (code == Some(*status)) {
            faults.push(format!("dp {line} > /dev/full: {code:?}: {said}"));
        }
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        drop(read);
        let (code, said) = dp(line, write.into());
        // A doctor may find something that is bad.
        let bad = line.starts_with("doctor") && code == Some(1) && !said.contains("standard output");
        if said.contains("panicked") || code != Some(0) && !bad {
            faults.push(format!("dp {line} | true: {code:?}: {said}"));
        }
    }
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
}

/// Whoever is to help needs the report, whoever reads the rest.
#[test]
fn a_report_is_written_where_standard_output_is_not() {
    let place = Place::new("report");
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["doctor", "--host", "--report", "report"]).current_dir(&place.0.path).stdout(full);
    command.env("DP_RUNTIME_DIR", place.0.path.join("registry")).stderr(Stdio::null());
    assert_eq!(command.status().expect("dp").code(), Some(1));
    let report = || fs::read_to_string(place.0.path.join("report")).expect("a report");
    let before = report();
    assert!(before.ends_with("}\n"), "{before}");
    let again = command.stderr(Stdio::piped()).output().expect("dp");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("report: it exists, and is not overwritten; name a new file"), "{said}");
    assert_eq!(report(), before);
}

#[test]
fn what_is_told_has_a_way_out() {
    let place = Place::new("ways");
    for (line, words) in [
        ("top --latency foo", "an IP address with a port, as in 127.0.0.1:6379"),
        ("recv abc", "the number of an endpoint here, 1 to 65535"),
        ("recv --count x 5000", "a number of messages"),
        ("doctor nosuch-program-dp", "check the spelling, dp ls lists programs with the shim"),
        ("doctor --host --report GONE", "make its folder first"),
        ("graph key GONE", "make its folder first"),
        (
            "node --graph GONE",
            "dp-graph.toml(5) tells how to write one, or name one that is there: --graph FILE",
        ),
        ("graph check GONE", "dp-graph.toml(5) tells how to write one"),
        ("graph live GONE", "dp-graph.toml(5) tells how to write one"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(line.split(' ').map(|word| place.real(word))).env("DP_DRIVER", "user");
        command.env("DP_RUNTIME_DIR", place.0.path.join("registry")).env("HOME", &place.0.path);
        let out = ended(&mut command).expect("its end");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(words), "{line}: {said}");
    }
}

/// It looked as if no gateway ran, and all were well.
#[test]
fn a_folder_of_endpoints_that_cannot_be_used_is_bad() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("folder");
    let registry = place.0.path.join("open");
    fs::create_dir(&registry).expect("a folder");
    fs::set_permissions(&registry, fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["doctor", "--host"]).env("DP_RUNTIME_DIR", &registry).env("DP_DRIVER", "user");
    let out = ended(&mut command).expect("its end");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(1) && said.contains("BAD   gateway: not to be asked: "), "{said}");
    assert!(said.contains("open to everybody") && said.contains("sudo DP_RUNTIME_DIR=/run/dp"), "{said}");
}
