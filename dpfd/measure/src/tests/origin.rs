//! Where and when.

use crate::origin::{cpu, date, Origin};

/// Somewhere, long ago.
pub fn here() -> Origin {
    Origin {
        host: "here".into(),
        cpu: "A Processor".into(),
        kernel: "Linux 6.12.1".into(),
        date: date(0),
        dp: "0.1.0".into(),
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(date(0), "1970-01-01T00:00:00Z");
    assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
    assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(date(951_868_800), "2000-03-01T00:00:00Z");
    assert_eq!(date(1_735_689_599), "2024-12-31T23:59:59Z");
    assert_eq!(date(1_735_689_600), "2025-01-01T00:00:00Z");
    // 2100 has no leap day.
    assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00Z");
}

#[test]
fn processors_call_themselves_by_several_fields() {
    assert_eq!(cpu("processor\t: 0\nmodel name\t: A: Processor\ncache\t: x\n"), Some("A: Processor"));
    assert_eq!(cpu("processor\t: 0\nmodel name\t: \ncpu\t\t: POWER9\n"), Some("POWER9"));
    assert_eq!(cpu("processor : 0\nBogoMIPS : 50\n"), None);
}

#[test]
fn a_line_has_all_of_it() {
    assert_eq!(here().line(), "here, A Processor, Linux 6.12.1, 1970-01-01T00:00:00Z, dp 0.1.0");
}
