use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::place::{mask4, mask6, Net, Place};
use super::who::Within;
use super::*;
use Action::{Channel, Refuse, Require, Tcp};
use Direction::{Connect, Listen};

mod golden;
mod naive;

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A question of a program called `p`, on a host that has the addresses of the loopback alone.
fn asked(direction: Direction, addr: &str, port: u16) -> Question<'static> {
    let here = ip(addr).to_canonical().is_loopback();
    Question { program: Program::named(b"p"), direction, addr: ip(addr), port, here }
}

/// The decision for a program called `p`.
fn decide(text: &str, dir: Direction, addr: &str, port: u16) -> Action {
    rules(text).decide(&asked(dir, addr, port)).action
}

fn message(text: &str) -> String {
    Rules::parse(text).expect_err(text).to_string()
}

#[test]
fn default_is_all_within_this_host_and_nothing_else() {
    let list = Rules::default();
    for addr in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1"] {
        for (here, action) in [(true, Channel), (false, Tcp)] {
            assert_eq!(list.decide(&Question { here, ..asked(Connect, addr, 1) }).action, action, "{addr}");
            assert_eq!(
                list.decide(&Question { here, ..asked(Listen, addr, 65535) }).action,
                action,
                "{addr}"
            );
        }
    }
    assert_eq!(list, rules("channel any localhost"));
}

#[test]
fn what_is_said_of_localhost_holds_for_each_of_its_addresses() {
    let list = rules("tcp any localhost:5432; channel any 127.0.0.0/8");
    let at = |addr, port| list.decide(&Question { here: true, ..asked(Connect, addr, port) }).action;
    assert_eq!([at("10.0.0.1", 5432), at("127.0.0.1", 5432)], [Tcp; 2], "an exception cannot be gone around");
    assert_eq!([at("10.0.0.1", 5433), at("127.0.0.1", 5433)], [Tcp, Channel]);
}

#[test]
fn text_without_rules_means_the_default() {
    for text in ["", "\n\n", " ; ;; \n", "# channel any *", "   # one\n\t# two; tcp any *\n"] {
        assert_eq!(rules(text), Rules::DEFAULT, "{text:?}");
    }
}

#[test]
fn exceptions_alone_leave_the_rest_of_the_host() {
    let text = "tcp any localhost:5432";
    assert_eq!(decide(text, Connect, "127.0.0.1", 5432), Tcp);
    assert_eq!(decide(text, Listen, "::1", 5432), Tcp);
    assert_eq!(decide(text, Connect, "127.0.0.1", 5433), Channel);
    assert_eq!(decide(text, Connect, "10.0.0.1", 5433), Tcp);
    assert_eq!(decide("tcp any *", Connect, "127.0.0.1", 1), Tcp);
}

#[test]
fn one_connect_rule_means_that_and_nothing_else() {
    let text = "channel connect 127.0.0.1:6379";
    assert_eq!(decide(text, Connect, "127.0.0.1", 6379), Channel);
    assert_eq!(decide(text, Connect, "127.0.0.1", 6380), Tcp);
    assert_eq!(decide(text, Connect, "127.0.0.2", 6379), Tcp);
    assert_eq!(decide(text, Connect, "::1", 6379), Tcp);
    assert_eq!(decide(text, Listen, "127.0.0.1", 6379), Tcp);
    assert!(!rules(text).may_accept(Program::named(b"p"), ip("0.0.0.0"), 6379));
}

#[test]
fn first_match_wins() {
    let text = "tcp any 10.1.0.0/16\nchannel any 10.0.0.0/8; tcp any *";
    assert_eq!(decide(text, Connect, "10.1.2.3", 1), Tcp);
    assert_eq!(decide(text, Connect, "10.2.2.3", 1), Channel);
    assert_eq!(decide(text, Connect, "127.0.0.1", 1), Tcp);
}

#[test]
fn prefixes_cover_what_they_say() {
    assert_eq!(decide("channel any 10.0.0.0/8", Connect, "::ffff:10.9.9.9", 1), Channel);
    assert_eq!(decide("channel any [::ffff:10.0.0.0]/104", Connect, "10.9.9.9", 1), Channel);
    assert_eq!(decide("channel any 0.0.0.0/0", Connect, "200.0.0.1", 1), Channel);
    assert_eq!(decide("channel any 0.0.0.0/0", Connect, "fd00::1", 1), Tcp);
    assert_eq!(decide("channel any [::]/0", Connect, "fd00::1", 1), Channel);
    assert_eq!(decide("channel any [::]/0", Connect, "10.0.0.1", 1), Tcp);
    assert_eq!(decide("channel any [fd00::]/8:80", Connect, "fdff::1", 80), Channel);
    assert_eq!(decide("channel any [fd00::]/8:80", Connect, "fc00::1", 80), Tcp);
}

#[test]
fn port_ranges_include_both_ends() {
    let text = "channel listen *:8080-8090";
    for (port, action) in [(8079, Tcp), (8080, Channel), (8090, Channel), (8091, Tcp)] {
        assert_eq!(decide(text, Listen, "192.0.2.1", port), action, "{port}");
    }
    assert_eq!(decide("channel any *:*", Listen, "192.0.2.1", 0), Channel);
}

#[test]
fn program_patterns_match_whole_names() {
    let table: [(&str, &str, bool); 9] = [
        ("redis-*", "redis-server", true),
        ("redis-*", "redis-", true),
        ("redis-*", "xredis-server", false),
        ("*-server", "redis-server", true),
        ("*s*s*er", "redis-server", true),
        ("python3.??", "python3.11", true),
        ("python3.??", "python3.1", false),
        ("p", "pp", false),
        ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
    ];
    for (pattern, name, expected) in table {
        let list = rules(&format!("channel any * program={pattern}"));
        let program = Program::named(name.as_bytes());
        let action = list.decide(&Question { program, ..asked(Connect, "127.0.0.1", 1) }).action;
        assert_eq!(action == Channel, expected, "{pattern} on {name}");
    }
    let program = Program::named(b"\xff\xfe");
    let decision =
        rules("channel any * program=?*").decide(&Question { program, ..asked(Connect, "::1", 1) });
    assert_eq!(decision.action, Channel);
}

#[test]
fn wildcard_listeners_may_accept_what_any_rule_allows() {
    let may = |text: &str, bound: &str, port| rules(text).may_accept(Program::named(b"p"), ip(bound), port);
    assert!(may("", "0.0.0.0", 80));
    assert!(may("", "::", 80));
    assert!(may("", "::1", 80));
    assert!(may("", "10.0.0.1", 80), "somebody of this host may ask there");
    assert!(!may("channel any 127.0.0.0/8", "10.0.0.1", 80));
    assert!(!may("tcp any localhost; channel any *", "0.0.0.0", 80));
    assert!(!may("channel listen *:81", "0.0.0.0", 80));
    assert!(!may("channel connect *", "0.0.0.0", 80));
    assert!(!may("tcp listen *; channel any *", "::", 80));
    assert!(!may("tcp any 0.0.0.0/0; channel any *", "0.0.0.0", 80));
    assert!(may("tcp any 0.0.0.0/0; channel any *", "::", 80));
    assert!(may("tcp any 10.0.0.0/8; channel any *", "0.0.0.0", 80));
    assert!(!may("channel any [fd00::]/8", "0.0.0.0", 80));
}

/// The decision for a program in this place among users and control groups.
fn of(text: &str, user: u32, group: u32, cgroup: &str) -> Action {
    let program = Program { name: b"p", user, group, cgroup: cgroup.as_bytes() };
    rules(text).decide(&Question { program, ..asked(Connect, "127.0.0.1", 1) }).action
}

#[test]
fn users_and_groups_are_numbers_or_names_of_the_files() {
    let text = "channel any * user=1000 group=33";
    assert_eq!(of(text, 1000, 33, ""), Channel);
    assert_eq!((of(text, 1000, 34, ""), of(text, 1001, 33, "")), (Tcp, Tcp));
    assert_eq!(rules("tcp any * user=root group=root"), rules("tcp any * user=0 group=0"));
}

#[test]
fn units_are_the_innermost_and_services_unless_said_otherwise() {
    let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope";
    for (rule, cgroup, expected) in [
        ("unit=nginx", "/system.slice/nginx.service", true),
        ("unit=nginx.service", "/system.slice/nginx.service", true),
        ("unit=ngin", "/system.slice/nginx.service", false),
        ("unit=nginx", "/system.slice/nginx.service/worker", true),
        ("unit=pg@*", "/system.slice/system-pg.slice/pg@17-main.service", true),
        ("unit=editor.scope", user, true),
        ("unit=user@1000", user, false),
        ("unit=*", "/", false),
        ("unit=*", "", false),
        ("cgroup=/user.slice/*", user, true),
        ("cgroup=/user.slice", user, false),
        ("cgroup=*", "", false),
        ("cgroup=*", "/", true),
    ] {
        let action = of(&format!("channel any * {rule}"), 0, 0, cgroup);
        assert_eq!(action == Channel, expected, "{rule} in {cgroup}");
    }
}

#[test]
fn the_control_group_is_that_of_version_2_or_systemds() {
    for (text, expected) in [
        ("0::/system.slice/a.service\n", "/system.slice/a.service"),
        ("0::/a:b\n", "/a:b"),
        ("12:cpu:/x\n1:name=systemd:/y.slice\n0::/\n", "/y.slice"),
        ("12:cpu:/x\n1:name=systemd:/y.slice\n", "/y.slice"),
        ("12:cpu,cpuacct:/x\n", ""),
        ("", ""),
        ("garbage", ""),
    ] {
        assert_eq!(cgroup(text.as_bytes()), expected.as_bytes(), "{text:?}");
    }
}

#[test]
fn require_makes_channels_and_refuse_makes_exceptions() {
    assert_eq!(decide("require any localhost:1", Connect, "127.0.0.1", 1), Require);
    assert_eq!(decide("require any localhost:1", Connect, "127.0.0.1", 2), Tcp);
    assert_eq!(decide("refuse any *:1", Connect, "10.0.0.1", 1), Refuse);
    assert_eq!(decide("refuse any *:1", Connect, "127.0.0.1", 2), Channel);
    assert_eq!(decide("dp any *:1", Connect, "127.0.0.1", 1), Channel);
    assert_eq!(rules("dp any *").to_string(), "channel any *");
    assert!(rules("require listen *").may_accept(Program::named(b"p"), ip("0.0.0.0"), 1));
    assert!(!rules("refuse listen *; channel any *").may_accept(Program::named(b"p"), ip("::"), 1));
}

#[test]
fn what_may_end_connections_is_known_by_direction() {
    for (text, connect, listen) in [
        ("tcp any *", false, false),
        ("refuse connect *", true, false),
        ("require listen *", false, true),
        ("require any *", true, true),
    ] {
        assert_eq!((rules(text).may_end(Connect), rules(text).may_end(Listen)), (connect, listen), "{text}");
    }
}

#[test]
fn settings_are_those_of_the_rule_that_decides() {
    let list =
        rules("channel any *:1 ring=8192 after=0; require any *:2 spin=100 ring-long=0; channel any *");
    let of = |port| list.decide(&asked(Connect, "127.0.0.1", port)).settings;
    assert_eq!(of(1), Settings { ring: Some(8192), after: Some(0), ..Settings::NONE });
    assert_eq!(of(2), Settings { spin: Some(100), ring_long: Some(0), ..Settings::NONE });
    assert_eq!(of(3), Settings::NONE);
}

#[test]
fn a_decision_names_its_rule_and_where_that_stands() {
    let list = rules("# first\ntcp any *:1;  tcp any *:2\n\n  tcp connect *:3");
    let place = |port| {
        let because = list.decide(&asked(Connect, "127.0.0.1", port)).because;
        because.and_then(|i| list.get(i)).map(|(_, at)| (at.line, at.column))
    };
    assert_eq!([1, 2, 3, 4].map(place), [Some((2, 1)), Some((2, 15)), Some((4, 3)), Some((0, 0))]);
    let elsewhere = list.decide(&asked(Connect, "10.0.0.1", 4));
    assert_eq!((elsewhere.action, elsewhere.because), (Tcp, None));
    let asked = asked(Listen, "127.0.0.1", 3);
    let passed: Vec<_> = list.passed_over(&asked).collect();
    assert_eq!(passed, [(0, Mismatch::Port), (1, Mismatch::Port), (2, Mismatch::Direction)]);
}

#[test]
fn texts_are_joined_in_their_order_and_completed_once() {
    let mut list = Rules::DEFAULT;
    list.clear();
    for (number, text) in ["tcp any *:1", "", "tcp any *:2"].iter().enumerate() {
        list.read(text, number as u16, &Files).unwrap();
    }
    list.complete().unwrap();
    assert_eq!(list, rules("tcp any *:1; tcp any *:2; channel any localhost"));
    assert_eq!(list.get(1).unwrap().1, Origin { text: 2, line: 1, column: 1 });
}

#[test]
fn words_in_errors_are_cut_and_escaped() {
    let text = format!("\u{1b}[31m{} any *", "x".repeat(10_000));
    assert!(message(&text).len() < 200);
    assert!(!message(&text).contains('\u{1b}'));
}

#[test]
fn lists_are_bounded() {
    let full = "channel any *:1\n".repeat(MAX_RULES);
    assert_eq!(rules(&full).iter().count(), MAX_RULES);
    let error = Rules::parse(&format!("{full}tcp any *")).unwrap_err();
    assert_eq!((error.line, error.column), (MAX_RULES as u32 + 1, 1));
    assert_eq!(error.problem, Problem::TooMany);
    assert_eq!(Rules::parse(&"tcp any *:1\n".repeat(MAX_RULES)).unwrap_err().problem, Problem::TooMany);
    let rule: Rule = "channel any *".parse().unwrap();
    assert!(Rules::new(&[rule; MAX_RULES + 1]).is_err());
}

#[test]
fn lists_are_plain_data_of_bounded_size() {
    assert!(!std::mem::needs_drop::<Rules>());
    assert!(std::mem::size_of::<Rules>() <= 32 << 10);
}

fn any_place() -> impl Strategy<Value = Place> {
    let v4 = (any::<u32>(), 0..=32u8).prop_map(|(a, n)| Net::V4(Ipv4Addr::from_bits(a & mask4(n)), n));
    let v6 = (any::<u128>(), 0..=128u8).prop_map(|(a, n)| Net::V6(Ipv6Addr::from_bits(a & mask6(n)), n));
    let net = prop_oneof![Just(Net::Any), Just(Net::Host), v4, v6];
    let range = (1..=u16::MAX, 1..=u16::MAX).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let ports = prop_oneof![Just((0, u16::MAX)), range, (1..=u16::MAX).prop_map(|p| (p, p))];
    (net, ports).prop_map(|(net, ports)| Place { net, ports })
}

fn any_who() -> impl Strategy<Value = super::who::Who> {
    let name = "[a-zA-Z0-9._*?é=-]{1,30}".prop_map(|text| Pattern::new(&text).unwrap());
    let path = "/[a-z./*?@-]{0,40}".prop_map(|text| Pattern::path(&text).unwrap());
    let within = prop_oneof![
        Just((Within::Anything, Pattern::ANY)),
        path.prop_map(|path| (Within::Path, path)),
        "[a-z@*?-]{1,20}".prop_map(|text| (Within::Unit, Pattern::new(&format!("{text}.service")).unwrap())),
    ];
    let id = || option::of(prop_oneof![0..3u32, 0..u32::MAX]);
    (option::of(name), id(), id(), within).prop_map(|(program, user, group, (within, cgroup))| {
        let program = program.unwrap_or(Pattern::ANY);
        super::who::Who { program, user, group, within, cgroup }
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let ring = option::of(4096..=1u32 << 26);
    let [long, spin, after] = [1u32 << 26, 1_000_000, 65_534].map(|most| option::of(0..=most));
    (ring, long, spin, after).prop_map(|(ring, ring_long, spin, after)| Settings {
        ring,
        ring_long,
        spin,
        after,
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let direction = option::of(prop_oneof![Just(Connect), Just(Listen)]);
    let action = prop_oneof![Just(Channel), Just(Tcp), Just(Require), Just(Refuse)];
    (action, direction, any_place(), any_who(), any_settings()).prop_map(
        |(action, direction, place, who, settings)| {
            let settings = if action.makes_channels() { settings } else { Settings::NONE };
            Rule { action, direction, place, who, settings }
        },
    )
}

/// Words and pieces a rule is made of, in any order.
fn rule_soup() -> impl Strategy<Value = String> {
    let pieces = "channel |tcp |require |refuse | user=| group=| unit=| cgroup=| ring=| after=| spin=|any |listen |connect |127.0.0.1|[|]|::1|/|:|-|*|localhost|8|65536| program=|?|;|\n|#|é";
    let pieces: Vec<&str> = pieces.split('|').collect();
    vec(select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn rendered_rules_read_back_equal(list in vec(any_rule(), 0..MAX_RULES)) {
        let list = Rules::new(&list).unwrap();
        let text = list.to_string();
        prop_assert_eq!(Rules::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?, list);
    }

    #[test]
    fn hostile_text_never_panics(text in any::<String>(), soup in rule_soup()) {
        for text in [text, soup] {
            if let Ok(list) = Rules::parse(&text) {
                prop_assert_eq!(Rules::parse(&list.to_string()), Ok(list));
            }
        }
    }

    #[test]
    fn may_accept_never_denies_what_decide_allows(
        list in vec(any_rule(), 0..6), v4 in any::<u32>(), port in any::<u16>()
    ) {
        let list = Rules::new(&list).unwrap();
        let addr = IpAddr::from(Ipv4Addr::from_bits(v4));
        let program = Program::named(b"p");
        let question = Question { program, direction: Listen, addr, port, here: true };
        if list.decide(&question).action.makes_channels() {
            prop_assert!(list.may_accept(Program::named(b"p"), ip("0.0.0.0"), port));
            prop_assert!(list.may_accept(Program::named(b"p"), ip("::"), port));
        }
    }
}
