//! dp-preload.conf(5) and `DP_RULES`, `DP_LOG`, control groups, names of variables.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use dp_rules::config::{log, slips};
use dp_rules::{cgroup, Direction, Names, Program, Question, Rules, MAX_RULES};

/// Users and groups that do not depend on the machine.
struct Fixed;

impl Names for Fixed {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }

    fn group(&self, name: &str) -> Option<u32> {
        (name == "www-data").then_some(33)
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 8 {
        0 => {
            let path = cgroup(bytes);
            assert!(path.len() <= bytes.len() && !path.contains(&b'\n'));
        }
        1 => {
            if let Ok(Some(log)) = log::parse(OsStr::from_bytes(bytes)) {
                let _ = log.to_string();
            }
        }
        2 => {
            if let Some(meant) = slips::meant(OsStr::from_bytes(bytes)) {
                assert!(!slips::told(OsStr::from_bytes(bytes), meant).is_empty());
            }
        }
        _ => {
            // Files are read as far as they are text.
            if let Ok(text) = std::str::from_utf8(bytes) {
                rules(text);
            }
        }
    }
}

fn read(text: &str) -> Result<Rules, dp_rules::RuleError> {
    let mut rules = Rules::DEFAULT;
    rules.clear();
    rules.read(text, 0, &Fixed)?;
    rules.complete()?;
    Ok(rules)
}

fn rules(text: &str) {
    let rules = match read(text) {
        Ok(rules) => rules,
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&(error.line as usize)), "{error}");
            let line = text.lines().nth(error.line as usize - 1).unwrap_or_default();
            assert!((1..=line.chars().count() + 1).contains(&(error.column as usize)), "{error}");
            assert!(!error.to_string().chars().any(char::is_control), "nothing that a terminal would obey");
            return;
        }
    };
    let n = rules.iter().len();
    assert!((1..=MAX_RULES).contains(&n));
    let written = rules.to_string();
    assert!(!written.contains('\n'));
    assert_eq!(read(&written).as_ref(), Ok(&rules), "{written}");
    for addr in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1", "0.0.0.0", "::"] {
        let addr: IpAddr = addr.parse().expect("an address");
        for (direction, here, port) in [(Direction::Connect, true, 6379), (Direction::Listen, false, 80)] {
            let program =
                Program { name: b"redis-server", user: 0, group: 33, cgroup: b"/system.slice/a.service" };
            let question = Question { program, direction, addr, port, here };
            let decision = rules.decide(&question);
            assert_eq!(rules.passed_over(&question).count(), decision.because.unwrap_or(n));
            if direction == Direction::Listen && decision.action.makes_channels() {
                assert!(rules.may_accept(program, addr, port) || addr.is_unspecified());
            }
            let _ = (rules.may_end(direction), rules.may_accept(program, addr, port));
        }
    }
}

/// Rules with everything that there is, and with faults; one of each word.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = "# comment\nchannel connect 127.0.0.1:6379 program=redis-* user=root group=www-data ring=64 # more\n\
                 tcp any [fd00::]/8:80-90; refuse listen *:22\n  require any [::1]:5432 unit=postgresql spin=10 after=3\n\
                 channel any 10.0.0.0/8 cgroup=/system.slice/*/a ring-long=4096\ndp listen localhost:*\n";
    let all: [(u8, &str); 14] = [
        (3, whole),
        (3, "channel any localhost"),
        (3, "channel any 10.0.0.1/8"),
        (3, "channel sideways ö:1"),
        (3, "tcp connect [::1"),
        (3, "tcp connect 1.2.3.4:9-1; tcp any 99"),
        (3, "channel any * user=nobody-knows program=a/b"),
        (3, "channel any * ring=1 ring=2"),
        (0, "12:cpu:/a\n1:name=systemd:/system.slice/a.service\n0::/b\n"),
        (0, "0::/user.slice\n"),
        (1, "journal:debug"),
        (1, "/var/log/dp:warning"),
        (2, "DP_RULE"),
        (2, "DP_CONFGI"),
    ];
    all.iter().map(|(which, text)| [&[*which], text.as_bytes()].concat()).collect()
}
