use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::parse::Problem;
use super::*;
use Action::{Channel, Tcp};
use Direction::{Connect, Listen};

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The decision for a program called `p` on a host that has the addresses of the loopback alone.
fn decide(text: &str, dir: Direction, addr: &str, port: u16) -> Action {
    rules(text).decide(b"p", dir, ip(addr), port, ip(addr).to_canonical().is_loopback())
}

fn message(text: &str) -> String {
    Rules::parse(text).expect_err(text).to_string()
}

#[test]
fn default_is_all_within_this_host_and_nothing_else() {
    let list = Rules::default();
    for addr in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1"] {
        for (here, action) in [(true, Channel), (false, Tcp)] {
            assert_eq!(list.decide(b"p", Connect, ip(addr), 1, here), action, "{addr}");
            assert_eq!(list.decide(b"p", Listen, ip(addr), 65535, here), action, "{addr}");
        }
    }
    assert_eq!(list, rules("channel any localhost"));
}

#[test]
fn what_is_said_of_localhost_holds_for_each_of_its_addresses() {
    let list = rules("tcp any localhost:5432; channel any 127.0.0.0/8");
    let at = |addr, port| list.decide(b"p", Connect, ip(addr), port, true);
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
    assert!(!rules(text).may_accept(b"p", ip("0.0.0.0"), 6379));
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
        let action = list.decide(name.as_bytes(), Connect, ip("127.0.0.1"), 1, true);
        assert_eq!(action == Channel, expected, "{pattern} on {name}");
    }
    assert_eq!(rules("channel any * program=?*").decide(b"\xff\xfe", Connect, ip("::1"), 1, true), Channel);
}

#[test]
fn wildcard_listeners_may_accept_what_any_rule_allows() {
    let may = |text: &str, bound: &str, port| rules(text).may_accept(b"p", ip(bound), port);
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

#[test]
fn errors_name_the_rule_the_word_and_the_way_out() {
    let table = [
        ("chanel any *", "rule 1 on line 1: chanel is not an action; write channel or tcp"),
        (
            "tcp any *\n\n# x\ntcp both *",
            "rule 2 on line 4: both is not a direction; write connect, listen or any",
        ),
        ("tcp any *; tcp", "rule 2 on line 1: the direction is missing"),
        ("tcp any", "the address is missing"),
        ("tcp any * and", "and is one word too many"),
        ("tcp any * program=a b", "b is one word too many"),
        ("tcp any * program=", "(nothing) names no program"),
        ("tcp any * program=/bin/sh", "/bin/sh names no program"),
        ("tcp any ::1", "[::1]"),
        ("tcp any ::1:6379", "brackets"),
        ("tcp any 6379", "write *:6379 or localhost:6379"),
        ("tcp any example.org:80", "example.org:80 is not an address"),
        ("tcp any 127.1", "127.1 is not an address"),
        ("tcp any [127.0.0.1]", "not an address"),
        ("tcp any [::1", "brackets"),
        ("tcp any [::1]x", "not an address"),
        ("tcp any */8", "not an address"),
        ("tcp any 10.0.0.0/33", "/33 is not a prefix length; write 0 to 32"),
        ("tcp any [fd00::]/129", "write 0 to 128"),
        ("tcp any 10.0.0.0/", "(nothing) is not a prefix length"),
        ("tcp any 10.1.2.3/8", "10.1.2.3/8 has bits set beyond its prefix; write 10.0.0.0/8"),
        ("tcp any [fd00::1]/8:80", "write [fd00::]/8"),
        ("tcp any *:0", "0 is not a port"),
        ("tcp any *:65536", "65536 is not a port; write 1 to 65535"),
        ("tcp any *:+80", "+80 is not a port"),
        ("tcp any *:", "(nothing) is not a port"),
        ("tcp any *:80-", "80- is not a port"),
        ("tcp any *:90-80", "90-80 ends before it begins; write 80-90"),
    ];
    for (text, expected) in table {
        assert!(message(text).contains(expected), "{text:?} gave: {}", message(text));
    }
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
    assert_eq!((error.rule, error.line, error.problem), (MAX_RULES + 1, MAX_RULES + 1, Problem::TooMany));
    assert_eq!(Rules::parse(&"tcp any *:1\n".repeat(MAX_RULES)).unwrap_err().problem, Problem::TooMany);
    let rule: Rule = "channel any *".parse().unwrap();
    assert!(Rules::new(&[rule; MAX_RULES + 1]).is_err());
}

#[test]
fn lists_are_plain_data_of_bounded_size() {
    assert!(!std::mem::needs_drop::<Rules>());
    assert!(std::mem::size_of::<Rules>() <= 8192);
}

fn any_place() -> impl Strategy<Value = Place> {
    let v4 = (any::<u32>(), 0..=32u8).prop_map(|(a, n)| Net::V4(Ipv4Addr::from_bits(a & mask4(n)), n));
    let v6 = (any::<u128>(), 0..=128u8).prop_map(|(a, n)| Net::V6(Ipv6Addr::from_bits(a & mask6(n)), n));
    let net = prop_oneof![Just(Net::Any), Just(Net::Host), v4, v6];
    let range = (1..=u16::MAX, 1..=u16::MAX).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let ports = prop_oneof![Just((0, u16::MAX)), range, (1..=u16::MAX).prop_map(|p| (p, p))];
    (net, ports).prop_map(|(net, ports)| Place { net, ports })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let direction = option::of(prop_oneof![Just(Connect), Just(Listen)]);
    let program = "[a-zA-Z0-9._*?é=-]{1,30}".prop_map(|text| Pattern::new(&text).unwrap());
    (prop_oneof![Just(Channel), Just(Tcp)], direction, any_place(), option::of(program)).prop_map(
        |(action, direction, place, program)| {
            Rule::new(action, direction, place).for_program(program.unwrap_or(Pattern::ANY))
        },
    )
}

/// Words and pieces a rule is made of, in any order.
fn rule_soup() -> impl Strategy<Value = String> {
    let pieces = "channel |tcp |any |listen |connect |127.0.0.1|[|]|::1|/|:|-|*|localhost|8|65536| program=|?|;|\n|#|é";
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
        if list.decide(b"p", Listen, addr, port, true) == Channel {
            prop_assert!(list.may_accept(b"p", ip("0.0.0.0"), port));
            prop_assert!(list.may_accept(b"p", ip("::"), port));
        }
    }
}
