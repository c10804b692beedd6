use super::super::tests::{looked, rows};
use super::*;

fn text(kind: Kind, width: Option<usize>) -> String {
    let look = looked(20_480);
    let all = rows(&look);
    let of: Vec<&Row> = all.iter().filter(|row| row.kind == kind).collect();
    lines(kind, &of, width).join("\n")
}

#[test]
fn programs_and_connections_have_their_rates() {
    let expected = "\
PROGRAM       PID  PROCESSES  CHANNELS  TCP   TX/s  RX/s  BELLS/s       TX       RX  ON TCP
redis-server   71          2         1    1  10KiB     0      1.5  20.1KiB  33.8KiB  3 no-offer, 1 rules";
    assert_eq!(text(Kind::Program, None), expected);
    let expected = "\
PROGRAM       PID  LOCAL           PEER             STATE      TX/s   RX/s  BELLS/s  BACK/s       TX       RX
redis-server   71  127.0.0.1:7000  127.0.0.1:40000  channel   10KiB  20KiB        0       0  20.0KiB  43.4KiB
redis-server   71  127.0.0.1:7000  127.0.0.1:40001  no-offer      -      -        0       0  20.0KiB  43.4KiB";
    assert_eq!(text(Kind::Connection, None), expected);
}

#[test]
fn where_there_is_no_room_the_least_wanted_columns_go() {
    for (width, titles) in [
        (90, "PROGRAM PID LOCAL PEER STATE TX/s RX/s BELLS/s"),
        (80, "PROGRAM PID LOCAL PEER STATE TX/s RX/s"),
        (60, "PROGRAM PID PEER STATE TX/s RX/s"),
        (40, "PROGRAM STATE TX/s RX/s"),
        (10, "PROGRAM STATE TX/s RX/s"),
    ] {
        let text = text(Kind::Connection, Some(width));
        let head = text.lines().next().unwrap();
        assert_eq!(head.split_whitespace().collect::<Vec<_>>().join(" "), titles, "{width}");
        assert!(width < 40 || text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn what_is_little_is_not_nothing() {
    assert_eq!([0.0, 0.04, 0.5, 9.9, 1e6].map(|r| rate(Some(r))), ["0", "0.0", "0.5", "9.9", "1000000"]);
    assert_eq!([0.0, 0.01, 10_240.0].map(|r| bytes_a_second(Some(r))), ["0", "1", "10KiB"]);
    assert_eq!([12.0, 1.5e3, 2e6, 3e9].map(time), ["12 ns", "1.5 us", "2.0 ms", "3.0 s"]);
}

#[test]
fn names_cannot_steer_the_terminal() {
    let look = looked(0);
    let mut all = rows(&look);
    all[1].program = Some("a\u{1b}[2J b".into());
    all[1].to = Some("x\u{1b}\ny".into());
    let text = lines(Kind::Connection, &[&all[1]], None).join("\n");
    assert!(text.contains("a?[2J?b") && text.contains("x??y"), "{text}");
    assert_eq!(text.lines().count(), 2);
}
