//! Waits without an end, in threads: what ends them is bytes, an end, a signal, or this process itself. And processes that are stopped
//! for a while.

use fastrand::Rng;

use super::{pick, sides};
use crate::fuzz::script::{Script, Who};

/// Calls that wait for what comes on `s`, and take nothing of it.
const ASK: [&str; 8] = [
    "epoll_wait e0 8 -1",
    "epoll_pwait e0 8 -1",
    "epoll_pwait2 e0 8 -1",
    "poll -1 s:IN",
    "ppoll -1 s:IN|RDHUP",
    "poll -1 s:IN v:IN",
    "select -1 s:IN v:IN",
    "recv s 10 peek",
];

/// Those that take it. Of two at the same time, it would be chance who does.
const TAKE: [&str; 8] = [
    "recv s 100",
    "read s 100",
    "readv s 100",
    "recvmsg s 100",
    "recv s 1 waitall",
    "recvmmsg s 1 10 0",
    "preadv2 s 100",
    "splicefrom s 100",
];

/// A second one beside those that ask, with a set of its own; and beside those that take: what comes does not end that one.
const BESIDE: [&str; 4] =
    ["epoll_wait e1 8 -1", "poll -1 s:IN|RDHUP", "select -1 s:IN", "epoll_pwait2 e1 8 -1"];
const FOR_ENDS: [&str; 2] = ["poll -1 s:RDHUP", "ppoll -1 s:RDHUP"];

fn sets(rng: &mut Rng, script: &mut Script, who: Who) {
    script.add(who, "eventfd v 0");
    for set in ["e0", "e1"] {
        let events = pick(rng, &["IN", "IN|ET", "IN|RDHUP", "IN|EXCLUSIVE", "IN|ET|RDHUP"]);
        script.add(who, format!("epoll {set}"));
        script.add(who, format!("epoll_add {set} s {events} 1"));
    }
    script.add(who, "epoll_add e1 v IN 2");
}

/// Every turn ends with no thread in a wait.
pub(super) fn endless(rng: &mut Rng, script: &mut Script) {
    let (waits, other) = sides(rng);
    sets(rng, script, waits);
    let turns = rng.u32(1..4);
    for turn in 1..=turns {
        if rng.bool() {
            script.add(Who::Both, format!("warm s {}", rng.u32(2..60)));
        }
        script.add(waits, "epoll_wait e0 8 0");
        script.add(waits, "epoll_wait e1 8 0");
        let takes = rng.bool();
        let (first, second) = if takes {
            (pick(rng, &TAKE), pick(rng, &FOR_ENDS))
        } else {
            (pick(rng, &ASK), pick(rng, &BESIDE))
        };
        let mut threads = vec![format!("a{turn}")];
        script.add(waits, format!("thread a{turn} {first}"));
        if rng.bool() {
            threads.push(format!("b{turn}"));
            script.add(waits, format!("thread b{turn} {second}"));
        }
        for _ in 0..rng.u32(..3) {
            aside(rng, script, waits, &threads);
        }
        let goes_on = turn < turns || rng.u32(..3) == 0;
        match goes_on {
            true => gone_on(rng, script, (waits, other), &threads),
            false => over(rng, script, (waits, other), threads.len() == 1),
        }
        script.add(Who::Nobody, "settle 3");
        threads.iter().for_each(|thread| script.add(waits, format!("join {thread} 150")));
        if takes && goes_on {
            // The other threads wait for the end alone, which does not come.
            threads[1..].iter().for_each(|thread| {
                script.add(waits, format!("signal {thread} plain"));
                script.add(waits, format!("join {thread} 150"));
            });
        }
        script.add(waits, "drain s 1000");
        script.add(waits, "evread v");
    }
    script.add(waits, pick(rng, &["epoll_wait e0 8 5", "poll 5 s:IN|RDHUP", "send s 10"]));
    script.add(other, "drain s 1000");
}

/// Something that does not end a receive.
fn aside(rng: &mut Rng, script: &mut Script, waits: Who, threads: &[String]) {
    let thread = &threads[rng.usize(..threads.len())];
    match rng.u32(..6) {
        0 | 1 => script.add(waits, format!("signal {thread} restart")),
        2 => script.add(waits, "evwrite v"),
        3 => script.add(waits, pick(rng, &["dup s d", "close d", "nonblock v 1", "fork f"])),
        4 => script.add(waits, format!("send s {}", rng.u32(1..300))),
        _ => script.add(waits, "epoll_wait e1 8 0"),
    }
}

/// What ends the waits, and the connection goes on.
fn gone_on(rng: &mut Rng, script: &mut Script, (waits, other): (Who, Who), threads: &[String]) {
    if rng.u32(..3) == 0 {
        threads.iter().for_each(|thread| script.add(waits, format!("signal {thread} plain")));
    } else {
        script.add(other, format!("send s {}", rng.u32(1..300)));
    }
}

/// What ends the waits, and the connection. A reset is told once: where there are two, it would be chance which of them is told.
fn over(rng: &mut Rng, script: &mut Script, (waits, other): (Who, Who), alone: bool) {
    if !alone {
        script.add(other, "drain s 1000");
    }
    match rng.u32(..9) {
        0 if alone => script.add(waits, pick(rng, &["unconnect s", "shutdown d RDWR"])),
        1 if alone => {
            script.add(other, "linger s 0");
            script.add(other, "close s");
        }
        2 => script.add(waits, pick(rng, &["shutdown s RD", "shutdown s RDWR"])),
        3 => script.add(other, "kill9"),
        4 | 5 => script.add(other, "shutdown s WR"),
        6 => script.add(other, "exit 0"),
        _ => script.add(other, "close s"),
    }
}

/// One side is stopped by a signal (SIGSTOP), and goes on later, while the other one does not wait for it.
pub(super) fn stopped(rng: &mut Rng, script: &mut Script) {
    let (stops, other) = sides(rng);
    sets(rng, script, stops);
    if rng.u32(..4) == 0 {
        script.add(stops, "timeo s rcv 900");
    }
    if rng.u32(..4) == 0 {
        script.add(other, "epoll e0");
        script.add(other, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|OUT|ET", "IN|RDHUP"])));
    }
    for turn in 1..=rng.u32(1..4) {
        if rng.bool() {
            script.add(Who::Both, format!("warm s {}", rng.u32(2..60)));
        }
        script.add(stops, "epoll_wait e0 8 0");
        let waits = rng.u32(..4) > 0;
        if waits {
            let limited =
                ["poll 900 s:IN", "select 900 s:IN", "epoll_wait e0 8 900", "epoll_pwait2 e0 8 900"];
            let call = match rng.u32(..3) {
                0 => pick(rng, &limited),
                1 => pick(rng, &TAKE),
                _ => pick(rng, &ASK),
            };
            script.add(stops, format!("thread t{turn} {call}"));
        } else if rng.bool() {
            script.add(other, format!("send s {}", rng.u32(1..3000)));
        }
        script.add(stops, "stop");
        for _ in 0..rng.u32(1..5) {
            match rng.u32(..8) {
                0..=2 => script.add(other, format!("send s {}", rng.u32(1..3000))),
                3 => script.add(other, "recv s 100"),
                4 => script.add(other, "poll 5 s:IN"),
                5 => script.add(other, "epoll_wait e0 8 5"),
                _ => script.add(Who::Nobody, format!("settle {}", rng.u32(1..30))),
            }
        }
        if rng.u32(..6) == 0 {
            script.add(other, pick(rng, &["shutdown s WR", "close s", "kill9"]));
        }
        script.add(stops, "cont");
        if waits {
            // Either it was ended by that, or it is now.
            script.add(stops, format!("join t{turn} 100"));
            script.add(stops, format!("signal t{turn} plain"));
            script.add(stops, format!("join t{turn} 150"));
        }
        script.add(Who::Nobody, "settle 3");
        script.add(stops, "drain s 1000");
        script.add(stops, format!("send s {}", rng.u32(1..300)));
        script.add(other, "drain s 1000");
    }
    script.add(other, "close s");
    script.add(Who::Nobody, "settle 3");
    script.add(stops, "epoll_wait e0 8 5");
    script.add(stops, "drain s 1000");
}
