//! Shapes of programs that are known to be difficult, with everything in them left to chance that can be.

use fastrand::Rng;

use super::script::{Script, Who};

mod crowd;
mod endless;
mod passed;
mod rare;
mod sets;
mod switches;
mod waits;

pub use self::sets::EARLY;

/// A side, and the other.
fn sides(rng: &mut Rng) -> (Who, Who) {
    if rng.bool() {
        (Who::Server, Who::Client)
    } else {
        (Who::Client, Who::Server)
    }
}

/// One of a few.
pub fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

/// A size, small ones more often.
pub fn size(rng: &mut Rng) -> u32 {
    match rng.u32(..10) {
        0 => rng.u32(1..4),
        1..=4 => rng.u32(1..200),
        5..=6 => rng.u32(200..5000),
        7 => rng.u32(5000..30_000),
        8 => rng.u32(30_000..140_000),
        _ => rng.u32(140_000..330_000),
    }
}

/// A shape's lines, on the connection `s`.
pub type Shape = fn(&mut Rng, &mut Script);

/// All of them, with their names.
pub const ALL: &[(&str, Shape)] = &[
    ("ends", ends),
    ("ends", ends),
    ("ends", ends),
    ("reset", reset),
    ("pump", sets::pump),
    ("equal-data", sets::equal_data),
    ("turns", sets::turns),
    ("edges", sets::edges),
    ("edges", sets::edges),
    ("copies", copies),
    ("copies", copies),
    ("closed-under", closed_under),
    ("many-sets", sets::many_sets),
    ("conversation", sets::conversation),
    ("messages", messages),
    ("forks", forks),
    ("alarms", waits::alarms),
    ("sleepers", waits::sleepers),
    ("urgent", urgent),
    ("low-water", low_water),
    ("nested", waits::nested),
    ("handed", rare::handed),
    ("odd", rare::odd),
    ("signalled", rare::signalled),
    ("disconnected", rare::disconnected),
    ("inherited", rare::inherited),
    ("blocked", rare::blocked),
    ("ended-under", waits::ended_under),
    ("bands", waits::bands),
    ("replaced-sets", waits::replaced_sets),
    ("switched", switches::switched),
    ("switched", switches::switched),
    ("cancelled", switches::cancelled),
    ("passed", passed::passed),
    ("endless", endless::endless),
    ("crowd", crowd::crowd),
    ("forked-beside", crowd::forked_beside),
    ("stopped", endless::stopped),
    ("left-sends", crowd::left_sends),
];

/// Shapes in which nothing may be that has nothing to do with them: who receives, or sends, is theirs to say, and a process that is stopped
/// answers nothing.
pub const ALONE: &[&str] = &["passed", "endless", "crowd", "forked-beside", "stopped", "left-sends"];

/// One side goes, in any way; the other goes on.
fn ends(rng: &mut Rng, script: &mut Script) {
    let (goes, stays) = sides(rng);
    if rng.bool() {
        let how =
            pick(rng, &["epoll_add e0 s IN|RDHUP 1", "epoll_add e0 s IN|OUT|ET 1", "epoll_add e0 s IN|ET 1"]);
        script.add(stays, "epoll e0");
        script.add(stays, how);
    }
    if rng.bool() {
        script.add(stays, format!("send s {}", size(rng)));
    }
    if rng.u32(..3) > 0 {
        script.add(goes, format!("send s {}", size(rng)));
    }
    if rng.u32(..4) == 0 {
        script.add(stays, format!("recv s {}", size(rng)));
    }
    if rng.u32(..4) == 0 {
        script.add(goes, format!("drain s {}", rng.u32(100..100_000)));
    }
    match rng.u32(..8) {
        0 => {
            script.add(goes, "linger s 0");
            script.add(goes, "close s");
        }
        1 => script.add(goes, "kill9"),
        2 => script.add(goes, pick(rng, &["_exit 0", "exit 0"])),
        3 | 4 => script.add(goes, format!("shutdown s {}", pick(rng, &["WR", "RDWR", "RD"]))),
        _ => script.add(goes, "close s"),
    }
    script.add(Who::Nobody, "settle 4");
    for _ in 0..rng.u32(2..6) {
        match rng.u32(..12) {
            0..=3 => script.add(stays, format!("send s {}", size(rng))),
            4..=6 => script.add(stays, format!("recv s {}", if rng.bool() { 1_000_000 } else { size(rng) })),
            7 => script.add(stays, "poll 5 s:IN|OUT|RDHUP"),
            8 => script.add(stays, "epoll_wait e0 8 5"),
            9 => script.add(
                stays,
                pick(rng, &["soerror s", "fionread s", "drain s 65536", "writev s 0", "again s"]),
            ),
            10 => script.add(goes, format!("recv s {}", size(rng))),
            _ => script.add(stays, pick(rng, &["recv s 10 peek", "recvmmsg s 5 10 0", "shutdown s WR"])),
        }
        if rng.bool() {
            script.add(Who::Nobody, "settle 2");
        }
    }
}

/// One side goes with bytes unread, or without lingering: there is an error behind what the other still has to read.
fn reset(rng: &mut Rng, script: &mut Script) {
    let (goes, stays) = sides(rng);
    if rng.bool() {
        script.add(stays, format!("send s {}", rng.u32(1..100)));
    } else {
        script.add(goes, "linger s 0");
    }
    script.add(goes, format!("send s {}", rng.u32(1..330_000)));
    script.add(goes, pick(rng, &["close s", "close s", "_exit 0", "kill9"]));
    script.add(Who::Nobody, "settle 4");
    for _ in 0..rng.u32(2..5) {
        let call = pick(rng, &["recv", "read", "readv", "recvmsg"]);
        script.add(stays, format!("{call} s {}", pick(rng, &["1000000", "200000", "50000"])));
    }
    script.add(stays, pick(rng, &["send s 10", "soerror s", "poll 5 s:IN|OUT|RDHUP"]));
}

/// A registration belongs to what is open, not to its number.
fn copies(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    script.add(reads, "dup s d");
    script.add(reads, "epoll e0");
    script.add(reads, format!("epoll_add e0 {} IN 1", pick(rng, &["s", "d"])));
    if rng.bool() {
        script.add(reads, format!("epoll_add e0 {} IN|OUT|ET 2", pick(rng, &["s", "d"])));
    }
    for _ in 0..rng.u32(1..4) {
        let ops = [
            "dup3 d s",
            "dup2 d s",
            "close s",
            "close d",
            "dup2 s d",
            "epoll_del e0 s IN 1",
            "epoll_del e0 d IN 1",
            "eventfd v 0",
            "dup2 v s",
            "drain s 100",
        ];
        script.add(reads, pick(rng, &ops));
        if rng.bool() {
            let sends = format!("send s {}", rng.u32(1..100));
            script.add(writes, if rng.u32(..4) == 0 { "close s" } else { &sends });
            script.add(reads, "epoll_wait e0 8 20");
        }
    }
    script.add(writes, format!("send s {}", rng.u32(1..100)));
    script.add(reads, "epoll_wait e0 8 20");
    script.add(reads, format!("recv {} 1000", pick(rng, &["s", "d"])));
    script.add(writes, "close s");
    script.add(reads, "epoll_wait e0 8 20");
}

/// A descriptor is closed, or another put on its number, while a thread is blocked in it.
fn closed_under(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    let call =
        pick(rng, &["recv s 100", "read s 100", "recvmsg s 100", "recv s 10 waitall", "recvmmsg s 2 5 0"]);
    script.add(reads, format!("thread t1 {call}"));
    match rng.u32(..5) {
        0 => script.add(reads, "close s"),
        1 => {
            script.add(reads, "eventfd v 0");
            script.add(reads, "dup2 v s");
        }
        _ => {
            script.add(reads, "close s");
            script.add(Who::Both, "open u");
            script.add(Who::Both, format!("warm u {}", pick(rng, &["20", "20", "2"])));
            script.add(writes, format!("send u {}", rng.u32(1..100)));
        }
    }
    match rng.u32(..4) {
        0 => script.add(writes, "close s"),
        1 => script.add(writes, "shutdown s WR"),
        _ => script.add(writes, format!("send s {}", rng.u32(1..100))),
    }
    script.add(Who::Nobody, "settle 3");
    script.add(reads, "join t1 40");
    script.add(reads, "recv u 100 dontwait");
    script.add(writes, "send s 10");
    // A thread that got what it waited for closes the file, in its own time.
    script.add(Who::Nobody, "settle 6");
    script.add(writes, "send s 10");
}

/// Several messages in one call.
fn messages(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    let count = rng.u32(2..6);
    match rng.u32(..4) {
        0 => {
            script.add(writes, format!("thread t1 trickle s 2 {count} 50"));
            let flags = pick(rng, &["", "waitforone", "waitall"]);
            script.add(
                reads,
                format!("recvmmsg s {} 4 {} {flags}", count + rng.u32(..2), pick(rng, &["20", "70", "120"])),
            );
            script.add(writes, "join t1 300");
        }
        1 => {
            script.add(writes, format!("send s {}", rng.u32(1..40)));
            script.add(writes, pick(rng, &["close s", "shutdown s WR"]));
            script.add(Who::Nobody, "settle 3");
            script.add(reads, format!("recvmmsg s {count} {} 0", rng.u32(1..40)));
        }
        2 => {
            script.add(writes, format!("sendmmsg s {count} {}", size(rng) % 30_000));
            script.add(
                reads,
                format!(
                    "recvmmsg s {count} {} 0 {}",
                    size(rng),
                    pick(rng, &["dontwait", "waitforone", "", "waitall"])
                ),
            );
        }
        _ => {
            script.add(reads, pick(rng, &["close s", "shutdown s RDWR", "shutdown s RD"]));
            script.add(Who::Nobody, "settle 3");
            script.add(writes, format!("sendmmsg s {count} 10"));
            script.add(writes, format!("sendmmsg s {count} 10"));
        }
    }
    script.add(reads, "drain s 1000");
}

/// A child has the connection, too.
fn forks(rng: &mut Rng, script: &mut Script) {
    let (forks, other) = sides(rng);
    script.add(forks, "fork f");
    for _ in 0..rng.u32(3..9) {
        let prefix = if rng.bool() { "child f " } else { "" };
        match rng.u32(..10) {
            0..=2 => script.add(forks, format!("{prefix}send s {}", size(rng))),
            3 | 4 => script.add(other, format!("send s {}", size(rng))),
            5 => script.add(forks, format!("{prefix}recv s {}", size(rng))),
            6 => script.add(other, format!("recv s {}", size(rng))),
            7 => script.add(forks, format!("{prefix}close s")),
            8 => script.add(forks, format!("child f {}", pick(rng, &["_exit 0", "kill9", "exit 0"]))),
            _ => script.add(other, pick(rng, &["poll 5 s:IN|OUT|RDHUP", "drain s 1000", "shutdown s WR"])),
        }
    }
    script.add(Who::Nobody, "settle 3");
    script.add(other, "drain s 65536");
}

/// An urgent byte, and what is read before and behind it.
fn urgent(rng: &mut Rng, script: &mut Script) {
    let (reads, sends) = sides(rng);
    if rng.bool() {
        script.add(sends, format!("send s {}", rng.u32(1..5000)));
    }
    script.add(sends, format!("send s {} oob", rng.u32(1..100)));
    if rng.bool() {
        script.add(sends, format!("send s {}", rng.u32(1..5000)));
    }
    script.add(Who::Nobody, "settle 3");
    for _ in 0..rng.u32(2..8) {
        let line = match rng.u32(..9) {
            0 => "recv s 1 oob dontwait".into(),
            1 => "poll 0 s:IN|PRI".into(),
            2 => "atmark s".into(),
            3 => format!("recv s {} peek dontwait", size(rng)),
            4 => "fionread s".into(),
            _ => format!("{} s {} dontwait", pick(rng, &["recv", "recvmsg"]), rng.u32(1..3000)),
        };
        script.add(reads, line);
    }
    script.add(reads, "poll 0 s:IN|PRI");
    script.add(reads, "recv s 1 oob dontwait");
    script.add(reads, format!("send s {}", rng.u32(1..1000)));
    script.add(sends, format!("recv s {}", rng.u32(1..1000)));
}

/// A low-water mark, or peeks that go on where the last one ended, set at any time.
fn low_water(rng: &mut Rng, script: &mut Script) {
    let (reads, sends) = sides(rng);
    let set = pick(rng, &["setopt s lowat 50", "setopt s lowat 2000", "setopt s peekoff 0"]);
    if rng.bool() {
        script.add(sends, format!("send s {}", rng.u32(1..100)));
        script.add(reads, "drain s 1000");
    }
    script.add(reads, set);
    for _ in 0..rng.u32(3..9) {
        match rng.u32(..8) {
            0..=2 => script.add(sends, format!("send s {}", rng.u32(1..1500))),
            3 => script.add(reads, "poll 0 s:IN|RDHUP"),
            4 => script.add(reads, format!("recv s {} peek dontwait", rng.u32(1..100))),
            5 => script.add(reads, format!("recv s {}", rng.u32(1..100))),
            6 => script.add(reads, format!("send s {}", rng.u32(1..100))),
            _ => script.add(reads, pick(rng, &["getopt s lowat", "getopt s peekoff", "fionread s"])),
        }
        script.add(Who::Nobody, "settle 1");
    }
    script.add(sends, "recv s 1000 dontwait");
    script.add(sends, "close s");
    script.add(Who::Nobody, "settle 2");
    script.add(reads, "drain s 1000");
}
