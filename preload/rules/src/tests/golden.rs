//! What is said about texts that are no rules, word for word.

use super::*;

#[test]
fn errors_name_line_column_word_and_the_way_out() {
    let table = [
        ("chanel any *", "1:1: chanel is not an action; write channel, tcp, require or refuse"),
        ("tcp any *\n\n# x\ntcp both *", "4:5: both is not a direction; write connect, listen or any"),
        (
            "tcp any *; tcp",
            "1:15: the direction is missing; a rule reads ACTION DIRECTION ADDRESS, as in channel connect 127.0.0.1:6379",
        ),
        (
            "  tcp any  # é",
            "1:10: the address is missing; a rule reads ACTION DIRECTION ADDRESS, as in channel connect 127.0.0.1:6379",
        ),
        (
            "tcp any * and",
            "1:11: and is neither a condition nor a setting; behind the address write program=, user=, group=, cgroup=, unit=, ring=, ring-long=, spin= or after=",
        ),
        ("tcp any * program=a b", "1:21: b is neither a condition nor a setting"),
        ("tcp any é", "1:9: é is not an address; write an IP address, localhost or *, as in 127.0.0.1:6379, [::1]:6379, 10.0.0.0/8"),
        ("é;tcp any 6379", "1:1: é is not an action"),
        ("tcp any *;tcp any 6379", "1:19: 6379 is a port without an address; write *:6379 or localhost:6379"),
        ("tcp any * program=", "1:11: (nothing) cannot be behind program=; write 1 to 63 bytes without ; # or space or /, where * and ? stand for any"),
        ("tcp any * program=/bin/sh", "1:11: /bin/sh cannot be behind program="),
        ("tcp any * unit=a/b", "1:11: a/b cannot be behind unit="),
        ("tcp any * program=a program=b", "1:21: program= stands here for the second time; write one of them"),
        ("tcp any * unit=a cgroup=/b", "1:18: cgroup= and another word both say which control group; write cgroup= or unit="),
        ("tcp any * user=nobody.at.all", "1:11: nobody.at.all is not in /etc/passwd; write a name that is, or a number"),
        ("tcp any * group=4294967295", "1:11: 4294967295 is not in /etc/group; write a name that is, or a number"),
        ("tcp any * ring=4096", "1:11: ring= says how a channel is to be, and tcp makes none; write it behind channel or require"),
        ("refuse any * after=1", "1:14: after= says how a channel is to be, and refuse makes none"),
        ("channel any * ring=4095", "1:15: 4095 is not for ring=; write 4096 to 67108864 bytes"),
        ("channel any * ring-long=x", "1:15: x is not for ring-long=; write 0 to 67108864 bytes"),
        ("channel any * spin=1000001", "1:15: 1000001 is not for spin=; write 0 to 1000000 nanoseconds"),
        ("channel any * after=-1", "1:15: -1 is not for after=; write 0 to 65534 calls"),
        ("channel any * after=99999999999", "1:15: 99999999999 is not for after="),
        ("tcp any ::1", "1:9: ::1 has more than one colon; write an IPv6 address in brackets, as in [::1] or [::1]:6379"),
        ("tcp any ::1:6379", "brackets"),
        ("tcp any example.org:80", "example.org:80 is not an address"),
        ("tcp any 127.1", "127.1 is not an address"),
        ("tcp any [127.0.0.1]", "not an address"),
        ("tcp any [::1", "brackets"),
        ("tcp any [::1]x", "not an address"),
        ("tcp any */8", "not an address"),
        ("tcp any 10.0.0.0/33", "1:9: /33 is not a prefix length; write 0 to 32"),
        ("tcp any [fd00::]/129", "write 0 to 128"),
        ("tcp any 10.0.0.0/", "(nothing) is not a prefix length"),
        ("tcp any 10.1.2.3/8", "1:9: 10.1.2.3/8 has bits set beyond its prefix; write 10.0.0.0/8"),
        ("tcp any [fd00::1]/8:80", "write [fd00::]/8"),
        ("tcp any *:0", "0 is not a port"),
        ("tcp any *:65536", "1:9: 65536 is not a port; write 1 to 65535, or FIRST-LAST"),
        ("tcp any *:+80", "+80 is not a port"),
        ("tcp any *:", "(nothing) is not a port"),
        ("tcp any *:80-", "80- is not a port"),
        ("tcp any *:90-80", "1:9: 90-80 ends before it begins; write 80-90"),
    ];
    for (text, expected) in table {
        let said = message(text);
        let whole = expected.starts_with(|c: char| c.is_ascii_digit()) && expected.contains(": ");
        let fits = if whole { said.starts_with(expected) } else { said.contains(expected) };
        assert!(fits, "{text:?} gave: {said}");
    }
}
