//! Shapes in which a direction changes its way again and again, by chaos, and beside threads that are cancelled.

use fastrand::Rng;

use super::{pick, sides};
use crate::fuzz::script::{Line, Script, Who};

/// With forced switches, whatever was chosen before.
fn by_chaos(rng: &mut Rng, script: &mut Script) {
    let seed = rng.u32(1..100_000);
    script.0.retain(|line| !line.word(1).starts_with("DP_CHAOS"));
    script.0.insert(0, Line::new(Who::Nobody, &format!("env DP_CHAOS={seed}")));
}

/// Watches the connection, in a set that others ask, too.
fn watched(rng: &mut Rng, script: &mut Script, who: Who) {
    let events = ["IN", "IN|ET", "IN|OUT|ET", "IN|RDHUP|ET", "IN|ONESHOT", "IN|OUT", "IN|EXCLUSIVE"];
    script.add(who, "epoll e0");
    script.add(who, format!("epoll_add e0 s {} 1", pick(rng, &events)));
}

/// A send of any kind, mostly a short one.
fn sends(rng: &mut Rng) -> String {
    let size = match rng.u32(..12) {
        0..=8 => rng.u32(1..300),
        9 | 10 => rng.u32(300..6000),
        _ => rng.u32(6000..30_000),
    };
    let calls = ["send", "send", "send", "write", "writev", "sendmsg", "sendfile", "spliceto", "sendto"];
    match rng.u32(..8) {
        0 => format!("sendmmsg s {} {}", rng.u32(1..6), rng.u32(1..400)),
        1 => format!("send s {size} {}", pick(rng, &["dontwait", "nosignal", "eor"])),
        _ => format!("{} s {size}", pick(rng, &calls)),
    }
}

/// A receive of any kind, or a question.
fn looks(rng: &mut Rng) -> String {
    let size = [rng.u32(1..20), rng.u32(20..600), rng.u32(600..40_000)][rng.usize(..3)];
    let flags = ["", "", "dontwait", "peek dontwait", "peek", "waitall dontwait", "trunc dontwait"];
    match rng.u32(..16) {
        0..=5 => format!("recv s {size} {}", pick(rng, &flags)),
        6 => format!("{} s {size}", pick(rng, &["read", "readv", "recvmsg", "recvfrom", "preadv2"])),
        7 => format!("recvmmsg s {} {} 0 dontwait", rng.u32(1..6), rng.u32(1..300)),
        8 => format!("splicefrom s {size} dontwait"),
        9 => "fionread s".into(),
        10 => format!("{} 0 s:IN|OUT|RDHUP", pick(rng, &["poll", "ppoll", "select"])),
        11 => format!("{} 8 s:IN", pick(rng, &["poll", "ppoll", "select"])),
        12 => "drain s 4096".into(),
        13 => "soerror s".into(),
        _ => format!("{} e0 8 {}", pick(rng, &["epoll_wait", "epoll_pwait2"]), pick(rng, &["0", "10"])),
    }
}

/// A long conversation of short sends, of which now and then one goes by TCP.
pub(super) fn switched(rng: &mut Rng, script: &mut Script) {
    by_chaos(rng, script);
    let (one, other) = sides(rng);
    for who in [one, other] {
        if rng.u32(..3) > 0 {
            watched(rng, script, who);
        }
    }
    if rng.u32(..6) == 0 {
        script.add(one, "fork f");
    }
    if rng.u32(..6) == 0 {
        script.add(other, pick(rng, &["dup s d", "nonblock s 1", "timeo s rcv 10", "setopt s nodelay 1"]));
    }
    for _ in 0..rng.u32(8..30) {
        let who = if rng.bool() { one } else { other };
        let child = if who == one && rng.u32(..8) == 0 { "child f " } else { "" };
        let line = if rng.bool() { sends(rng) } else { looks(rng) };
        let moves = line.starts_with("send") || line.starts_with("recv ");
        script.add(who, format!("{}{line}", if moves { child } else { "" }));
        if rng.u32(..3) == 0 {
            script.add(Who::Nobody, "settle 1");
        }
    }
    let ends = ["close s", "shutdown s WR", "shutdown s RDWR", "kill9", "send s 10", "exit 0"];
    script.add(one, pick(rng, &ends));
    script.add(Who::Nobody, "settle 4");
    for _ in 0..rng.u32(1..4) {
        script.add(other, if rng.u32(..3) == 0 { sends(rng) } else { looks(rng) });
    }
    script.add(other, "drain s 65536");
}

/// A thread is cancelled inside a call, and the connection goes on.
pub(super) fn cancelled(rng: &mut Rng, script: &mut Script) {
    if rng.bool() {
        by_chaos(rng, script);
    }
    let (waits, other) = sides(rng);
    watched(rng, script, waits);
    script.add(waits, "epoll_wait e0 8 0");
    let calls = [
        "recv s 100",
        "read s 100",
        "readv s 100",
        "recvmsg s 100",
        "recvfrom s 100",
        "preadv2 s 100",
        "recvmmsg s 2 10 0",
        "recv s 10 peek",
        "recv s 10 waitall",
        "splicefrom s 100",
        "sendfilefrom s 100",
        "poll 500 s:IN",
        "ppoll 500 s:IN|RDHUP",
        "select 500 s:IN",
        "epoll_wait e0 8 500",
        "epoll_pwait2 e0 8 500",
    ];
    for turn in 0..rng.u32(1..4) {
        if rng.bool() {
            script.add(Who::Both, format!("warm s {}", rng.u32(2..60)));
        }
        script.add(waits, format!("thread t{turn} {}", pick(rng, &calls)));
        if rng.u32(..3) == 0 {
            script.add(waits, format!("send s {}", rng.u32(1..100)));
        }
        script.add(waits, format!("cancel t{turn}"));
        for _ in 0..rng.u32(1..5) {
            match rng.u32(..8) {
                0..=2 => script.add(other, format!("send s {}", rng.u32(1..200))),
                3 => script.add(waits, format!("send s {}", rng.u32(1..200))),
                4 => script.add(waits, "epoll_wait e0 8 10"),
                5 => script.add(other, "recv s 1000 dontwait"),
                _ => script.add(waits, looks(rng)),
            }
            script.add(Who::Nobody, "settle 2");
        }
        script.add(waits, "drain s 1000");
    }
    script.add(other, pick(rng, &["close s", "shutdown s WR", "send s 10", "kill9"]));
    script.add(Who::Nobody, "settle 3");
    script.add(waits, "epoll_wait e0 8 10");
    script.add(waits, "drain s 1000");
    script.add(other, "drain s 1000");
}
