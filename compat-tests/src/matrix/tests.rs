//! What programs print, and what is made of it.

use std::collections::BTreeSet;

use super::http::{parse, Load};
use super::legs::Leg;
use super::{rows, tool, web};

const WRK: &str = "Running 1s test @ http://127.0.0.1:8080/small
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   361.10us  130.60us   3.14ms   91.44%
    Req/Sec    22.20k     1.25k   23.52k    90.91%
  24277 requests in 1.10s, 30.03MB read
Requests/sec:  22080.75
Transfer/sec:     27.31MB
";

#[test]
fn wrk_is_understood() {
    let load = parse(WRK).unwrap();
    assert_eq!(load, Load { requests: 24277, bytes: 31_488_737, rate: 22080.75 });
}

#[test]
fn a_load_with_errors_is_none() {
    for line in [
        "  Socket errors: connect 0, read 3, write 0, timeout 0",
        "  Socket errors: connect 0, read 0, write 0, timeout 1",
        "  Non-2xx or 3xx responses: 5",
    ] {
        let text = WRK.replace("Requests/sec", &format!("{line}\nRequests/sec"));
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(line.trim()), "{error}");
    }
    let nothing = WRK.replace("24277 requests in 1.10s, 30.03MB", "0 requests in 1.10s, 0.00B");
    assert!(parse(&nothing).is_err());
}

#[test]
fn unknown_words_are_an_error_and_not_a_figure() {
    for (known, other) in [
        ("Requests/sec:", "Requests per second:"),
        ("22080.75", "nan"),
        ("30.03MB", "30.03MiB"),
        ("requests in", "answers in"),
    ] {
        let error = parse(&WRK.replace(known, other)).unwrap_err().to_string();
        assert!(error.contains("wrk"), "{error}");
    }
}

#[test]
fn our_clients_are_understood_or_not_at_all() {
    assert_eq!(web::hyper::parse("53210 requests in 2.001 s\n").unwrap(), (53210, 2.001));
    assert_eq!(web::grpc::parse("532.1 a second, 1064 in all\n").unwrap(), (532.1, 1064));
    for other in ["", "0 requests in 2.0 s", "5 requests in 0.0 s", "5 requests in NaN s", "5 answers in 2 s"]
    {
        assert!(web::hyper::parse(other).is_err(), "{other}");
    }
    for other in ["", "inf a second, 3 in all", "5 a second", "5 a second, 1 in all, 2 errors"] {
        assert!(web::grpc::parse(other).is_err(), "{other}");
    }
}

#[test]
fn a_leg_is_a_channel_when_nearly_all_of_its_connections_are() {
    let leg = |channels, carried, reason| Leg {
        name: "wrk to nginx".into(),
        channels,
        connections: 10,
        carried,
        content: 1000,
        on_tcp: "1 no-door".into(),
        reason,
    };
    for (channels, carried) in [(9, 1000), (10, 1), (20, 5000)] {
        assert_eq!(leg(channels, carried, None).fault(), None);
    }
    let closed = |channels, on_tcp: &str| Leg { on_tcp: on_tcp.into(), ..leg(channels, 1000, None) };
    assert_eq!(closed(6, "4 closed").fault(), None);
    assert!(closed(6, "2 closed, 2 no-door").fault().is_some() && closed(4, "6 closed").fault().is_some());
    let half = leg(5, 1000, None).fault().unwrap();
    assert!(half.contains("wrk to nginx: 5 of 10") && half.contains("1 no-door"), "{half}");
    assert!(leg(10, 0, None).fault().is_none() && leg(10, 0, None).fault_of_a_load().is_some());
    assert!(leg(0, 0, Some("a reason")).fault_of_a_load().is_none());
    assert!(leg(0, 0, Some("a reason")).fault().is_none());
}

#[test]
fn versions_are_found_in_words() {
    assert_eq!(tool::in_words("nginx version: nginx/1.22.1\n").as_deref(), Some("1.22.1"));
    assert_eq!(tool::in_words("Python 3.11.2.").as_deref(), Some("3.11.2"));
    assert_eq!(tool::in_words("go version go1.19.8 linux/amd64").as_deref(), Some("1.19.8"));
    assert_eq!(tool::in_words("v2 of something."), None);
}

#[test]
fn each_row_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for row in rows() {
        assert!(names.insert(row.name), "{} twice", row.name);
        // Tests of others measure nothing.
        let measures = row.name.ends_with("_tests") || !row.figures.is_empty();
        assert!(!row.tools.is_empty() && measures, "{}", row.name);
    }
}
