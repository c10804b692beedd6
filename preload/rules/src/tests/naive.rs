//! Decisions against a model that was written from the manual page alone, bit by bit and without the rules' own code.

use super::*;

/// Whether the first `bits` bits of two addresses agree, one bit after the other.
fn agree(a: &[u8], b: &[u8], bits: u8) -> bool {
    let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    a.len() == b.len() && (0..usize::from(bits)).all(|i| bit(a, i) == bit(b, i))
}

/// Whether a pattern matches, by trying everything.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|n| matches(rest, &name[n..])),
        Some((b'?', rest)) => !name.is_empty() && matches(rest, &name[1..]),
        Some((c, rest)) => name.first() == Some(c) && matches(rest, &name[1..]),
    }
}

fn has(net: Net, addr: IpAddr, here: bool) -> bool {
    match (net, addr) {
        (Net::Any, _) => true,
        (Net::Host, _) => here,
        (Net::V4(net, bits), IpAddr::V4(addr)) => agree(&net.octets(), &addr.octets(), bits),
        (Net::V6(net, bits), IpAddr::V6(addr)) => agree(&net.octets(), &addr.octets(), bits),
        _ => false,
    }
}

fn fits(rule: &Rule, q: &Question) -> bool {
    let (first, last) = rule.place.ports;
    let pattern = rule.who.cgroup.to_string();
    let unit =
        std::str::from_utf8(q.program.cgroup).unwrap().split('/').rfind(|part| part.ends_with(".service"));
    let in_group = match rule.who.within {
        Within::Anything => true,
        Within::Path => !q.program.cgroup.is_empty() && matches(pattern.as_bytes(), q.program.cgroup),
        Within::Unit => unit.is_some_and(|unit| matches(pattern.as_bytes(), unit.as_bytes())),
    };
    (rule.direction.is_none() || rule.direction == Some(q.direction))
        && first <= q.port
        && q.port <= last
        && has(rule.place.net, q.addr.to_canonical(), q.here)
        && matches(rule.who.program.to_string().as_bytes(), q.program.name)
        && (rule.who.user.is_none() || rule.who.user == Some(q.program.user))
        && (rule.who.group.is_none() || rule.who.group == Some(q.program.group))
        && in_group
}

/// Few enough values of everything that rules and questions meet.
fn close_rule() -> impl Strategy<Value = Rule> {
    let net = prop_oneof![
        Just(Net::Any),
        Just(Net::Host),
        (0..=32u8).prop_map(|n| Net::V4(Ipv4Addr::from_bits(0x7f00_0001 & mask4(n)), n)),
        (0..=128u8).prop_map(|n| Net::V6(Ipv6Addr::from_bits(1 & mask6(n)), n)),
    ];
    let ports = (1..6u16, 0..4u16).prop_map(|(first, n)| (first, first + n));
    let name = select(vec!["*", "a", "?", "a*", "*b", "a?b"]);
    let within = select(vec![
        (Within::Anything, "*"),
        (Within::Path, "/x/*"),
        (Within::Path, "*"),
        (Within::Unit, "a*.service"),
    ]);
    let id = || option::of(0..2u32);
    let who = (name, id(), id(), within);
    let what = (select(vec![Channel, Tcp, Require, Refuse]), option::of(select(vec![Connect, Listen])));
    (what, net, ports, who).prop_map(
        |((action, direction), net, ports, (name, user, group, (within, path)))| {
            let who = super::super::who::Who {
                program: Pattern::new(name).unwrap(),
                user,
                group,
                within,
                cgroup: Pattern::path(path).unwrap(),
            };
            Rule { action, direction, place: Place { net, ports }, who, settings: Settings::NONE }
        },
    )
}

fn close_addr() -> impl Strategy<Value = IpAddr> {
    let near = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(0x7f00_0001 ^ bits));
    prop_oneof![
        Just(ip("::1")),
        Just(ip("::ffff:127.0.0.1")),
        (0..32u32).prop_map(move |bit| near(1 << bit)),
        (0..128u32).prop_map(|bit| IpAddr::from(Ipv6Addr::from_bits(1 ^ 1 << bit))),
    ]
}

proptest! {
    #[test]
    fn the_first_rule_that_fits_decides(
        list in vec(close_rule(), 0..12),
        addr in close_addr(), port in 0..10u16, listen in any::<bool>(), here in any::<bool>(),
        name in select(vec!["a", "ab", "axb", ""]), user in 0..3u32, group in 0..3u32,
        cgroup in select(vec!["", "/", "/x/abc.service", "/x/b.service/abc"]),
    ) {
        let direction = if listen { Listen } else { Connect };
        let program = Program { name: name.as_bytes(), user, group, cgroup: cgroup.as_bytes() };
        let question = Question { program, direction, addr, port, here };
        let rules = Rules::new(&list).unwrap();
        let got = rules.decide(&question);
        let expected = rules.iter().position(|rule| fits(rule, &question));
        prop_assert_eq!(got.because, expected);
        prop_assert_eq!(got.action, expected.map_or(Tcp, |i| rules.get(i).unwrap().0.action));
        let passed: Vec<_> = rules.passed_over(&question).map(|(i, _)| i).collect();
        let all_before: Vec<_> = (0..expected.unwrap_or(rules.iter().len())).collect();
        prop_assert_eq!(passed, all_before);
        // A decision for a listener's own address says that it may accept.
        if listen && here && got.action.makes_channels() {
            prop_assert!(rules.may_accept(program, addr, port) || addr.is_unspecified());
        }
    }
}
