use proptest::prelude::*;

use super::*;

#[test]
fn what_is_written_is_read() {
    let all = [
        "udp:192.0.2.1:7411",
        "udp:[2001:db8::1]:7411",
        "udp:[fe80::1%2]:7411",
        "eth:eth0/02:00:00:00:00:01",
        "eth:enp3s0.12/02:00:00:00:0a:ff",
        "sim:name",
        "pigeon:loft/3:left",
    ];
    for text in all {
        let address: PeerAddr = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(address.to_string(), text);
        assert_eq!(address.route(), text.split(':').next().unwrap());
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    let all = [
        ("", "ROUTE:ADDRESS"),
        ("192.0.2.1", "ROUTE:ADDRESS"),
        (":x", "name of a route"),
        ("a b:x", "name of a route"),
        ("sixteen-letters-x:x", "name of a route"),
        ("udp:192.0.2.1", "udp:IP:PORT"),
        ("udp:2001:db8::1:7411", "udp:IP:PORT"),
        ("udp:localhost:7411", "udp:IP:PORT"),
        ("udp:[fe80::1]:7411", "`ip link` shows it: udp:[fe80::1%2]:7411"),
        ("udp:[fe80::1%0]:7411", "a link-local address is one on an interface"),
        ("udp:[fe80::1%eth0]:7411", "the number that this has"),
        ("udp:192.0.2.1:0", "no single node"),
        ("udp:0.0.0.0:7411", "no single node"),
        ("udp:[::]:7411", "no single node"),
        ("udp:224.0.0.1:7411", "no single node"),
        ("udp:255.255.255.255:7411", "no single node"),
        ("eth:eth0", "eth:INTERFACE/MAC"),
        ("eth:/02:00:00:00:00:01", "eth:INTERFACE/MAC"),
        ("eth:../02:00:00:00:00:01", "eth:INTERFACE/MAC"),
        ("eth:sixteen-letters0/02:00:00:00:00:01", "eth:INTERFACE/MAC"),
        ("eth:eth0/02:00:00:00:00", "eth:INTERFACE/MAC"),
        ("eth:eth0/02:00:00:00:00:01:02", "eth:INTERFACE/MAC"),
        ("eth:eth0/2:0:0:0:0:1", "eth:INTERFACE/MAC"),
        ("eth:eth0/+2:00:00:00:00:01", "eth:INTERFACE/MAC"),
        ("eth:eth0/ff:ff:ff:ff:ff:ff", "no single machine"),
        ("eth:eth0/00:00:00:00:00:00", "no single machine"),
        ("sim:", "printable"),
        ("sim:a b", "printable"),
        ("sim:\u{e9}", "printable"),
    ];
    for (text, says) in all {
        let error = text.parse::<PeerAddr>().expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(PeerAddr::other("udp", "x").is_err(), "which has a form of its own");
    assert!(PeerAddr::other("sim", &"x".repeat(LABEL_MAX + 1)).is_err());
}

#[test]
fn the_interface_of_a_link_local_address_is_the_senders_own() {
    let address = |text: &str| text.parse::<PeerAddr>().unwrap();
    let seen = |there, own| address(there).as_seen_from(&address(own)).to_string();
    assert_eq!(seen("udp:[fe80::2%3]:7411", "udp:[fe80::1%7]:7400"), "udp:[fe80::2%7]:7411");
    assert_eq!(seen("udp:[2001:db8::2]:7411", "udp:[2001:db8::1]:7411"), "udp:[2001:db8::2]:7411");
    assert_eq!(seen("udp:192.0.2.2:7411", "udp:192.0.2.1:7411"), "udp:192.0.2.2:7411");
    assert_eq!(address("udp:[2001:db8::2%4]:7411"), address("udp:[2001:db8::2]:7411"));
}

#[test]
fn an_interface_does_not_make_another_address() {
    let address = |text: &str| text.parse::<PeerAddr>().unwrap();
    let known: std::collections::HashSet<PeerAddr> = [address("eth:eth0/02:00:00:00:00:01")].into();
    assert!(known.contains(&address("eth:eth1/02:00:00:00:00:01")));
    assert!(!known.contains(&address("eth:eth0/02:00:00:00:00:02")));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Ok(address) = text.parse::<PeerAddr>() {
            prop_assert_eq!(address.to_string().parse::<PeerAddr>().unwrap().to_string(), address.to_string());
        }
    }
}
