//! A connection that is handed to another process (SCM_RIGHTS): to a relative, to another program under the shim, or to one without.

use fastrand::Rng;

use super::{pick, sides};
use crate::fuzz::script::{Script, Who};

/// Where a relay is in between, what is sent comes a little later than on TCP.
const ARRIVES: &str = "settle 10";

/// Small enough that there is room for all of it, whichever way it takes.
fn few(rng: &mut Rng) -> u32 {
    match rng.u32(..8) {
        0 => rng.u32(3000..9000),
        1 | 2 => rng.u32(200..3000),
        _ => rng.u32(1..200),
    }
}

/// Chance decides which process has the connection when, and whether something lies unread at that moment. It does not decide which one
/// reads: what a relay has taken, only the process at the relay's end gets (dp-preload(7)), so the giver receives nothing from then on.
pub(super) fn passed(rng: &mut Rng, script: &mut Script) {
    let (gives, other) = sides(rng);
    script.add(gives, pick(rng, &["fork f", "fork f", "spawn f", "spawn f", "spawn f bare"]));
    if rng.u32(..3) == 0 {
        script.add(other, "epoll e0");
        script.add(other, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|RDHUP", "IN|ET"])));
    }
    for _ in 0..rng.u32(..3) {
        script.add(other, format!("send s {}", few(rng)));
        if rng.bool() {
            script.add(gives, format!("recv s {}", few(rng)));
        }
        if rng.u32(..3) == 0 {
            script.add(gives, format!("send s {}", few(rng)));
        }
    }
    let from = pick(rng, &["s", "s", "d"]);
    if from == "d" {
        script.add(gives, "dup s d");
    }
    script.add(gives, format!("post {from} f"));
    if rng.bool() {
        under_way(rng, script, (gives, other));
    }
    script.add(Who::Nobody, ARRIVES);
    script.add(gives, "child f take p");
    if rng.bool() {
        script.add(gives, "close s");
        script.add(gives, "close d");
    }
    for _ in 0..rng.u32(2..9) {
        used(rng, script, (gives, other));
    }
    if rng.u32(..3) == 0 {
        back(rng, script, (gives, other));
    }
    over(rng, script, (gives, other));
}

/// Nobody has it but a message in between, or the giver as well.
fn under_way(rng: &mut Rng, script: &mut Script, (gives, other): (Who, Who)) {
    for _ in 0..rng.u32(1..3) {
        match rng.u32(..6) {
            0 | 1 => script.add(gives, "close s"),
            2 => script.add(other, format!("send s {}", few(rng))),
            3 => script.add(gives, "child f close s"),
            4 => script.add(gives, format!("send s {}", few(rng))),
            _ => script.add(other, pick(rng, &["shutdown s WR", "drain s 1000 40", "epoll_wait e0 8 5"])),
        }
    }
}

/// Something is done with it by its new owner, or at the other end, or sent by whoever gave it away.
fn used(rng: &mut Rng, script: &mut Script, (gives, other): (Who, Who)) {
    match rng.u32(..12) {
        0..=2 => script.add(gives, format!("child f send p {}", few(rng))),
        3 | 4 => script.add(other, format!("send s {}", few(rng))),
        5 => script.add(gives, format!("child f recv p {}", few(rng))),
        6 => script.add(gives, "child f drain p 1000 40"),
        7 => script.add(other, format!("recv s {}", few(rng))),
        8 => script.add(other, pick(rng, &["drain s 1000 40", "poll 5 s:IN", "epoll_wait e0 8 5"])),
        9 => script.add(gives, "child f poll 5 p:IN"),
        10 => script.add(gives, format!("child f recv p {} peek dontwait", few(rng))),
        _ => script.add(gives, format!("send s {}", few(rng))),
    }
    script.add(Who::Nobody, ARRIVES);
}

/// The new owner has read all there is, and gives it back, to who may have closed it meanwhile.
fn back(rng: &mut Rng, script: &mut Script, (gives, other): (Who, Who)) {
    script.add(gives, "child f drain p 1000 40");
    script.add(gives, "child f post p");
    if rng.bool() {
        script.add(gives, "child f close p");
    }
    script.add(Who::Nobody, ARRIVES);
    script.add(gives, "take r f");
    for _ in 0..rng.u32(1..4) {
        match rng.u32(..3) {
            0 => script.add(gives, format!("send r {}", few(rng))),
            1 => script.add(other, format!("send s {}", few(rng))),
            _ => script.add(other, "drain s 1000 40"),
        }
        script.add(Who::Nobody, ARRIVES);
        script.add(gives, "drain r 1000 40");
    }
    if rng.bool() {
        script.add(gives, "close r");
    }
}

/// All of those that have it end, in any order, or the other side does.
fn over(rng: &mut Rng, script: &mut Script, (gives, other): (Who, Who)) {
    let mut ends = vec!["close s", "close d", "close r"];
    ends.push(pick(rng, &["child f close p", "child f shutdown p WR", "child f _exit 0", "child f kill9"]));
    rng.shuffle(&mut ends);
    if rng.u32(..3) == 0 {
        script.add(other, pick(rng, &["close s", "shutdown s WR", "kill9"]));
        script.add(Who::Nobody, ARRIVES);
        script.add(gives, "child f drain p 1000 40");
    }
    ends.iter().for_each(|end| script.add(gives, end));
    script.add(Who::Nobody, ARRIVES);
    script.add(Who::Nobody, ARRIVES);
    script.add(other, "drain s 1000 40");
    script.add(other, pick(rng, &["poll 5 s:IN|RDHUP", "send s 10", "soerror s"]));
}
