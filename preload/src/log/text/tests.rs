use super::*;

fn written(form: Form, event: &Event, missed: u32) -> String {
    let mut writer = Writer::new(form);
    write(&mut writer, Level::Info, event, missed);
    String::from_utf8(writer.bytes().to_vec()).unwrap()
}

fn time(seconds: u64, nanoseconds: u32) -> String {
    let mut writer = Writer::new(Form::Line);
    write_time(&mut writer, (seconds, nanoseconds));
    String::from_utf8(writer.bytes().to_vec()).unwrap()
}

fn v4(last: u8, port: u16) -> Addr {
    let mut ip = [0; 16];
    ip[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, last]);
    Addr { ip, port, scope: 0 }
}

const LONGEST: Addr = Addr { ip: [0xfe; 16], port: 65535, scope: u32::MAX };

#[test]
fn a_line_names_time_process_and_what_happened() {
    let event = Event {
        word: "leave",
        connection: Some((7, v4(1, 6379), v4(2, 40312))),
        reason: Some("no-offer"),
        ..Event::NONE
    };
    let line = written(Form::Line, &event, 0);
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{line}");
    let name = String::from_utf8_lossy(state::program());
    let pid = std::process::id();
    let said = "leave fd=7 own=127.0.0.1:6379 other=127.0.0.2:40312 reason=no-offer";
    assert_eq!(rest, format!("dp-preload[{pid}] {name}: {said}\n"));
    assert!(written(Form::Line, &event, 3).ends_with(" reason=no-offer missed=3\n"));
    let live = Event { word: "live", layout: 5, reason: None, ..event };
    assert!(written(Form::Line, &live, 0).ends_with(" other=127.0.0.2:40312 layout=5\n"));
    let event = Event { word: "start", text: &["version ", "1"], ..Event::NONE };
    assert!(written(Form::Line, &event, 0).ends_with(": start: version 1\n"));
}

#[test]
fn an_entry_of_the_journal_has_a_field_for_each_thing() {
    let event = Event {
        word: "reset",
        connection: Some((9, LONGEST, v4(1, 1))),
        reason: Some("corrupt"),
        ..Event::NONE
    };
    let entry = written(Form::Fields, &event, 0);
    let own = "[fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe%4294967295]:65535";
    let said = format!("reset fd=9 own={own} other=127.0.0.1:1 reason=corrupt");
    let fields: Vec<&str> = entry.lines().collect();
    assert_eq!(
        fields,
        [
            "PRIORITY=6",
            "SYSLOG_IDENTIFIER=dp-preload",
            &format!("DP_PROGRAM={}", String::from_utf8_lossy(state::program())),
            "DP_EVENT=reset",
            "DP_REASON=corrupt",
            "DP_FD=9",
            &format!("DP_OWN={own}"),
            "DP_OTHER=127.0.0.1:1",
            &format!("MESSAGE={said}"),
        ]
    );
    assert!(entry.ends_with('\n'));
}

#[test]
fn the_longest_connection_fits_with_the_longest_name() {
    let event = Event {
        word: "hand_back",
        connection: Some((i32::MAX, LONGEST, LONGEST)),
        reason: Some("peer-left"),
        ..Event::NONE
    };
    let entry = written(Form::Fields, &event, u32::MAX);
    assert!(entry.ends_with(" missed=4294967295\n"), "{entry}");
    assert!(entry.len() + NAME <= ROOM, "{}", entry.len());
}

#[test]
fn foreign_words_neither_end_a_line_nor_make_it_too_long() {
    let text = "x\n\u{1b}[31mFORGED=1\r".to_owned() + &"y".repeat(2 * ROOM);
    for form in [Form::Line, Form::Fields] {
        let line = written(form, &Event { word: "warning", text: &[&text], ..Event::NONE }, 1);
        assert!(line.len() <= ROOM && line.ends_with("y...\n"), "{line}");
        assert!(line.contains("warning: x??[31mFORGED=1?y"), "{line}");
        assert!(!line.lines().any(|line| line.starts_with("FORGED")), "{line}");
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    assert_eq!(time(0, 0), "1970-01-01T00:00:00.000000Z");
    assert_eq!(time(951_782_399, 999_999_999), "2000-02-28T23:59:59.999999Z");
    assert_eq!(time(951_782_400, 1000), "2000-02-29T00:00:00.000001Z");
    assert_eq!(time(951_868_800, 0), "2000-03-01T00:00:00.000000Z");
    assert_eq!(time(1_795_671_854, 0), "2026-11-26T05:44:14.000000Z");
    assert_eq!(time(4_107_542_399, 0), "2100-02-28T23:59:59.000000Z");
    assert_eq!(time(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    // Each day follows the one before it.
    let lengths = |year: u64| {
        [
            31,
            if year % 4 == 0 && year % 100 != 0 || year % 400 == 0 { 29 } else { 28 },
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ]
    };
    let mut expected = (1970, 1, 1);
    for days in 0..200_000 {
        assert_eq!(date(days), expected);
        let (year, month, day) = expected;
        expected = match (day == lengths(year)[month as usize - 1], month) {
            (false, _) => (year, month, day + 1),
            (true, 12) => (year + 1, 1, 1),
            (true, _) => (year, month + 1, 1),
        };
    }
}
