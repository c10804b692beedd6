//! Kit of the tests below, and what is common to all lines.

use super::*;
use crate::ls::tests::listing;
use crate::page;

/// What is seen twice, two seconds apart, with so many bytes more in each of `more`.
pub fn looked(more: u64) -> Look {
    let mut meter = Meter::default();
    let mut listing = listing();
    listing.families[0].connections[1].peer.set_port(40_001);
    meter.look(&listing, Duration::from_secs(1));
    for family in &mut listing.families {
        family.tx_bytes += more;
        family.doorbells += 3;
        for c in &mut family.connections {
            c.tx_bytes += more;
            c.rx_bytes += 2 * more;
        }
    }
    meter.look(&listing, Duration::from_secs(3));
    Look { listing, meter: meter.into(), unix_seconds: 3_723.5, said: Vec::new(), latency: None }
}

pub fn rows(of: &Look) -> Vec<Row> {
    of.rows(&Filter::default(), Sort::Rate, false)
}

#[test]
fn the_head_has_the_sums_of_what_is_shown() {
    let look = looked(20_480);
    assert_eq!(head(&look, &rows(&look)), "01:02:03 UTC  1 programs, 1 channel ends, 1 on TCP, 10KiB/s sent");
    let none = look.rows(&Filter::typed("nobody").unwrap(), Sort::Rate, false);
    assert_eq!(head(&look, &none), "01:02:03 UTC  0 programs, 0 channel ends, 0 on TCP, -/s sent");
}

#[test]
fn a_filter_is_typed_as_the_options_of_a_list() {
    let look = looked(0);
    let left = |line: &str| {
        let filter = Filter::typed(line)?;
        Ok::<_, String>(look.rows(&filter, Sort::Rate, false).len())
    };
    for (line, lines) in [
        ("", 3),
        ("redis*", 3),
        ("nginx redis*", 3),
        ("nginx", 0),
        ("--state tcp", 2),
        ("--state=tcp redis*", 2),
        ("--pid 71 --reason no-offer", 2),
    ] {
        assert_eq!(left(line), Ok(lines), "{line}");
    }
    for (line, why) in [
        ("--state live", "invalid value 'live'"),
        ("--reason", "a value is required"),
        ("--nothing", "unexpected argument '--nothing'"),
        ("-x", "unexpected argument '-x'"),
        ("a/b", "invalid value 'a/b'"),
        ("--help", "unexpected argument"),
    ] {
        let said = left(line).unwrap_err();
        assert!(said.contains(why) && !said.contains('\n'), "{line}: {said}");
    }
}

#[test]
fn lines_of_json_have_the_documented_fields() {
    let look = looked(100);
    let row = serde_json::to_value(&rows(&look)[1]).unwrap();
    let expected = serde_json::json!({
        "kind": "connection", "program": "redis-server", "pid": 71,
        "from": "127.0.0.1:7000", "to": "127.0.0.1:40000", "state": "channel",
        "tx_bytes_per_second": 50.0, "rx_bytes_per_second": 100.0,
        "tx_messages_per_second": null, "rx_messages_per_second": null,
        "doorbells_per_second": 0.0, "hand_backs_per_second": 0.0, "repeats_per_second": null,
        "tx_bytes": 112, "rx_bytes": 3656, "processes": null, "channels": null, "tcp": null,
        "waiting": null, "round_trip_ns": null, "reason": null, "on_tcp": null,
    });
    assert_eq!(row, expected);
    let page = include_str!("../../../../man/dp-top.1");
    page::documents(page, &expected, &["on_tcp"]);
    let look = serde_json::from_str(batch::objects(&look, &[]).lines().next().unwrap()).unwrap();
    page::documents(page, &look, &[]);
}
