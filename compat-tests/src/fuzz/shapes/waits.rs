//! Shapes of waits: signals that come during one, changes beside a thread that sleeps, and what few programs have: sets in sets, sets
//! that give way to others, odd events, ends beside a thread that waits.

use fastrand::Rng;

use super::{pick, sides};
use crate::fuzz::script::{Line, Script, Who};

/// Sets in sets, their copies, and timers beside connections.
pub(super) fn nested(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    script.add(reads, "epoll e0");
    script.add(reads, "epoll e1");
    let add = format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|ONESHOT", "IN|RDHUP", "IN|OUT"]));
    let nest = format!("epoll_add e1 e0 {} 9", pick(rng, &["IN", "IN|ONESHOT"]));
    let order = if rng.bool() { [&add, &nest] } else { [&nest, &add] };
    order.iter().for_each(|line| script.add(reads, line));
    script.add(reads, pick(rng, &["dup e0 e2", "dup3 e0 e2", "dup e1 e2"]));
    if rng.bool() {
        script.add(reads, format!("timerfd v {}", rng.u32(1..6)));
        script.add(reads, format!("epoll_add {} v IN 2", pick(rng, &["e0", "e1"])));
        script.add(Who::Nobody, "settle 8");
    }
    for _ in 0..rng.u32(4..12) {
        match rng.u32(..12) {
            0..=2 => script.add(writes, format!("send s {}", rng.u32(1..3000))),
            3 => script.add(reads, pick(rng, &["drain s 1000", "recv s 100 dontwait", "evread v"])),
            4 => script.add(reads, pick(rng, &["epoll_del e1 e0 IN 9", "epoll_mod e1 e0 IN 9", "close e0"])),
            5 => script.add(reads, pick(rng, &["epoll_mod e0 s IN 1", "epoll_del e0 s IN 1", "close e2"])),
            6 => script.add(writes, "shutdown s WR"),
            7 => {
                // Others, too, wait in the copy.
                script.add(reads, format!("epoll_add e2 s {} 5", pick(rng, &["IN", "IN|ET"])));
            }
            _ => {
                script.add(Who::Nobody, "settle 2");
                let calls = [
                    "epoll_wait e1 8 10",
                    "epoll_wait e1 8 0",
                    "epoll_wait e0 8 10",
                    "epoll_wait e2 8 10",
                    "poll 5 e0:IN",
                    "poll 5 e1:IN e0:IN",
                    "select 5 e1:IN",
                ];
                script.add(reads, pick(rng, &calls));
            }
        }
    }
}

/// A thread is blocked in a receive or a wait when this process itself ends the connection.
pub(super) fn ended_under(rng: &mut Rng, script: &mut Script) {
    let (waits, other) = sides(rng);
    script.add(waits, "epoll e0");
    script.add(waits, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|RDHUP", "OUT|ET"])));
    let calls = [
        "recv s 100",
        "read s 100",
        "recvmsg s 100",
        "recv s 100 waitall",
        "recvmmsg s 2 10 0",
        "poll 60 s:IN",
        "poll 60 s:IN|RDHUP",
        "select 60 s:IN",
        "epoll_wait e0 8 60",
        "recv s 10 peek",
        "sendfilefrom s 100",
        "preadv2 s 100",
    ];
    script.add(waits, "epoll_wait e0 8 0");
    script.add(waits, format!("thread t1 {}", pick(rng, &calls)));
    if rng.u32(..3) == 0 {
        script.add(waits, "dup s d");
    }
    let ends = ["shutdown s RD", "shutdown s RDWR", "shutdown s WR", "shutdown d RD", "setopt s lowat 1"];
    let end = pick(rng, &ends);
    script.add(if rng.u32(..6) == 0 { other } else { waits }, end);
    script.add(Who::Nobody, "settle 4");
    script.add(waits, "join t1 100");
    if rng.bool() {
        script.add(other, "send s 10");
        // The thread has it first.
        script.add(Who::Nobody, "settle 8");
    }
    script.add(waits, "recv s 100 dontwait");
    script.add(other, pick(rng, &["send s 10", "recv s 10 dontwait", "poll 5 s:IN|RDHUP"]));
    script.add(waits, "epoll_wait e0 8 5");
}

/// The bands that poll and epoll know beside the usual words, and the third set of select.
pub(super) fn bands(rng: &mut Rng, script: &mut Script) {
    let (asks, sends) = sides(rng);
    let words = [
        "RDNORM",
        "WRNORM",
        "RDNORM|WRNORM",
        "RDBAND",
        "WRBAND",
        "IN|RDNORM",
        "OUT|WRBAND",
        "RDNORM|ET",
        "WRNORM|ET",
        "RDNORM|WRNORM|ET",
        "MSG",
        "PRI",
        "RDNORM|ONESHOT",
        "IN|PRI",
        "PRI|ET",
        "ET",
    ];
    script.add(asks, "epoll e0");
    script.add(asks, format!("epoll_add e0 s {} 1", pick(rng, &words)));
    for _ in 0..rng.u32(4..10) {
        match rng.u32(..10) {
            0..=2 => script.add(sends, format!("send s {}", rng.u32(1..3000))),
            3 => script.add(sends, "send s 1 oob"),
            4 => script.add(asks, pick(rng, &["recv s 100 dontwait", "drain s 1000"])),
            5 => script.add(asks, format!("epoll_mod e0 s {} 1", pick(rng, &words))),
            6 => script.add(sends, "shutdown s WR"),
            _ => {}
        }
        script.add(Who::Nobody, "settle 2");
        let line = match rng.u32(..3) {
            0 => format!("poll 5 s:{}", pick(rng, &words[..8])),
            1 => format!("select 5 s:{}", pick(rng, &["IN|PRI", "PRI", "IN|OUT|PRI"])),
            _ => "epoll_wait e0 8 5".into(),
        };
        script.add(asks, line);
    }
}

/// A set that is copied, closed, or gives its number to another one or to the connection.
pub(super) fn replaced_sets(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    script.add(reads, "epoll e0");
    script.add(reads, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET"])));
    // The set itself is closed, or another is put on its number.
    for turn in 0..rng.u32(1..4) {
        script.add(writes, format!("send s {}", rng.u32(1..100)));
        script.add(Who::Nobody, "settle 2");
        script.add(reads, "epoll_wait e0 8 5");
        let line = pick(rng, &["epoll e1", "close e0", "fork f", "dup e0 e1", "dupmin e0 e1 300"]);
        script.add(reads, line);
        script.add(
            reads,
            pick(rng, &["dup3 e1 e0", "dup2 s e1", "epoll_add e1 s IN 2", "epoll e0", "close e1"]),
        );
        if turn == 0 && rng.bool() {
            script.add(reads, format!("epoll_add e0 s {} 3", pick(rng, &["IN", "IN|ET"])));
        }
        script.add(writes, format!("send s {}", rng.u32(1..100)));
        script.add(Who::Nobody, "settle 2");
        script
            .add(reads, pick(rng, &["epoll_wait e0 8 5", "epoll_wait e1 8 5", "child f epoll_wait e0 8 5"]));
        script.add(reads, "drain s 1000");
    }
    if rng.bool() {
        script.0.insert(0, Line::new(Who::Nobody, "env DP_SPIN=1000000"));
    }
}

/// A signal comes during a call.
pub(super) fn alarms(rng: &mut Rng, script: &mut Script) {
    let (waits, other) = sides(rng);
    script.0.insert(0, Line::new(Who::Nobody, "env DP_SPIN=1000000"));
    script.add(waits, "epoll e0");
    script.add(waits, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|OUT|ET"])));
    for turn in 0..rng.u32(1..4) {
        let call = pick(
            rng,
            &[
                "recv s 100",
                "recvmsg s 100",
                "recv s 100 waitall",
                "read s 10",
                "poll 20 s:IN",
                "poll 20 s:IN|RDHUP",
                "select 20 s:IN",
                "epoll_wait e0 8 20",
                "epoll_pwait2 e0 8 20",
                "recvmmsg s 2 10 0",
            ],
        );
        script.add(Who::Both, format!("warm s {}", rng.u32(5..60)));
        if call.starts_with("epoll") {
            script.add(waits, "epoll_wait e0 8 0");
        }
        let later = rng.u32(..3) == 0;
        if later {
            script.add(other, format!("thread t{turn} trickle s {} 1 {}", rng.u32(1..100), rng.u32(13..18)));
        }
        script.add(waits, format!("alarmed {} {} {call}", rng.u32(3..7), pick(rng, &["plain", "restart"])));
        if later {
            script.add(other, format!("join t{turn} 300"));
        }
        script.add(waits, "drain s 1000");
    }
}

/// A thread sleeps in a wait while others change what it waits for.
pub(super) fn sleepers(rng: &mut Rng, script: &mut Script) {
    let (waits, sends) = sides(rng);
    let events = ["IN", "IN|ET", "IN|ONESHOT", "IN|RDHUP", "IN|EXCLUSIVE"];
    script.add(waits, "epoll e0");
    let added = rng.bool();
    if added {
        script.add(waits, format!("epoll_add e0 s {} 1", pick(rng, &events)));
    }
    for turn in 0..rng.u32(1..4) {
        script.add(Who::Both, format!("warm s {}", rng.u32(2..60)));
        let call = pick(
            rng,
            &[
                "epoll_wait e0 8 40",
                "epoll_wait e0 8 40",
                "epoll_pwait2 e0 8 40",
                "poll 40 s:IN",
                "select 40 s:IN",
            ],
        );
        script.add(waits, "epoll_wait e0 8 0");
        script.add(waits, format!("thread t{turn} {call}"));
        for _ in 0..rng.u32(1..4) {
            match rng.u32(..7) {
                0 => script.add(waits, format!("epoll_add e0 s {} 1", pick(rng, &events))),
                1 => script.add(waits, format!("epoll_mod e0 s {} {}", pick(rng, &events), rng.u32(1..3))),
                2 => script.add(waits, "epoll_del e0 s IN 0"),
                3 => script.add(waits, "dup s d"),
                4 => script.add(waits, format!("send s {}", rng.u32(1..100))),
                _ => {
                    script.add(sends, format!("send s {}", rng.u32(1..100)));
                    // Whether the thread is awake before the next change would be a race.
                    script.add(Who::Nobody, "settle 3");
                }
            }
        }
        script.add(waits, format!("join t{turn} 100"));
        script.add(waits, "drain s 1000");
        script.add(sends, "drain s 1000");
    }
    script.add(sends, "close s");
    script.add(Who::Nobody, "settle 2");
    script.add(waits, "epoll_wait e0 8 10");
}
