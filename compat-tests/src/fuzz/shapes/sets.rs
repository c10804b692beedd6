//! Shapes of epoll sets: what they tell, how often, and in what order.

use fastrand::Rng;

use super::{pick, sides, size};
use crate::fuzz::script::{Line, Script, Who};

/// A stream under back-pressure to an edge-triggered reader.
pub(super) fn pump(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    let set = watched(rng, script, reads, &["IN|ET", "IN|ET|RDHUP", "IN|OUT|ET"]);
    let want = if rng.bool() { rng.u32(1000..20_000) } else { rng.u32(20_000..200_000) };
    let counts = pick(rng, &["", "counts"]);
    // What the last edge of one does not tell, no later one tells.
    for _ in 0..rng.u32(1..4) {
        let total = rng.u32(200_000..6_000_000);
        let piece = pick(rng, &["4096", "65536", "100000", "1000000"]);
        script.add(writes, format!("thread t1 sendall s {total} {piece}"));
        let pause = pick(rng, &["0", "50", "400", "400"]);
        script.add(reads, format!("etpump {set} s {total} {want} {pause} {counts}"));
        script.add(writes, "join t1 300");
    }
}

/// A set in which `who` waits for edges of `s`: where it has registered it before it was connected, that one.
fn watched(rng: &mut Rng, script: &mut Script, who: Who, modes: &[&str]) -> &'static str {
    let early =
        |line: &Line| line.word(0) == "open" && line.word(2) == EARLY && modes.contains(&line.word(3));
    if who == Who::Client && script.0.iter().any(early) {
        return EARLY;
    }
    script.add(who, "epoll e0");
    script.add(who, format!("epoll_add e0 s {} 1", pick(rng, modes)));
    "e0"
}

/// The set in which a client registers a socket before it connects it.
pub const EARLY: &str = "e8";

/// Several descriptors with the same data.
pub(super) fn equal_data(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    script.add(reads, "epoll e0");
    script.add(reads, "pipe p q");
    script.add(reads, "eventfd v 0");
    script.add(reads, "dup s d");
    let mut list: Vec<String> = ["s", "p", "v", "d"]
        .iter()
        .map(|name| format!("epoll_add e0 {name} {} 1", pick(rng, &["IN", "IN", "OUT", "IN|ET"])))
        .collect();
    rng.shuffle(&mut list);
    list.truncate(rng.usize(2..=4));
    list.iter().for_each(|line| script.add(reads, line));
    for _ in 0..rng.u32(2..6) {
        match rng.u32(..5) {
            0 => script.add(reads, "write q 1"),
            1 => script.add(reads, "evwrite v"),
            2 => script.add(reads, pick(rng, &["read p 10", "evread v", "drain s 1000"])),
            _ => script.add(writes, format!("send s {}", rng.u32(1..100))),
        }
        script.add(reads, "epoll_wait e0 8 40");
    }
}

/// More is ready than a call has room for.
pub(super) fn turns(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    script.add(reads, "epoll e0");
    script.add(reads, format!("eventfd v {}", rng.u32(..2)));
    script.add(reads, "eventfd w 1");
    script.add(reads, format!("epoll_add e0 v {} 2", pick(rng, &["IN", "OUT", "IN|OUT"])));
    script.add(reads, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|OUT", "IN|ET"])));
    if rng.bool() {
        script.add(reads, format!("epoll_add e0 w {} 3", pick(rng, &["IN", "IN|ET", "OUT"])));
    }
    script.add(writes, format!("send s {}", size(rng)));
    script.add(Who::Nobody, "settle 2");
    script.add(reads, format!("epoll_seen e0 {} 200 {}", rng.u32(1..3), pick(rng, &["0", "0", "5"])));
    // Just now the kernel was asked, see known.rs.
    script.add(Who::Nobody, "settle 1");
    script.add(reads, "epoll_wait e0 8 5");
}

/// Edges: what is told again, and what is not.
pub(super) fn edges(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    let modes = [
        "IN|ET",
        "IN|OUT|ET",
        "IN|ET|EXCLUSIVE",
        "IN|ONESHOT",
        "IN|ET|ONESHOT",
        "IN|RDHUP|ET",
        "IN|EXCLUSIVE",
    ];
    let set = watched(rng, script, reads, &modes);
    for _ in 0..rng.u32(3..9) {
        match rng.u32(..10) {
            0..=4 => script.add(writes, format!("send s {}", size(rng) % 30_000 + 1)),
            5 => script.add(reads, format!("recv s {} dontwait", size(rng))),
            6 => script.add(reads, "drain s 65536"),
            7 => script.add(
                reads,
                format!(
                    "epoll_mod {set} s {} 1",
                    pick(rng, &["IN|ET", "IN|OUT|ET", "IN|ONESHOT", "OUT", "IN"])
                ),
            ),
            8 => script.add(reads, format!("send s {}", rng.u32(1..100))),
            _ => script.add(writes, "shutdown s WR"),
        }
        script.add(Who::Nobody, "settle 2");
        let call = pick(rng, &["epoll_wait", "epoll_wait", "epoll_pwait2", "epoll_raw"]);
        script.add(reads, format!("{call} {set} 8 {}", pick(rng, &["0", "10"])));
    }
}

/// Many epoll sets, or calls that fail.
pub(super) fn many_sets(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    if rng.bool() {
        script.add(Who::Both, "open a");
        script.add(Who::Both, "warm a 20");
    } else {
        script.add(reads, "eventfd a 0");
    }
    let count = rng.u32(1000..1400);
    if rng.bool() {
        script.0.insert(0, Line::new(Who::Nobody, "env DP_SPIN=1000000"));
    }
    script
        .add(reads, if rng.bool() { format!("badctl {count} a") } else { format!("manysets {count} a IN") });
    script.add(reads, "epoll e0");
    script.add(reads, "epoll_add e0 s IN 1");
    if rng.u32(..3) > 0 {
        return rounds(rng, script, (reads, writes));
    }
    for turn in 0..rng.u32(3..8) {
        // Just now this side was looking and did not sleep; then bytes come while it waits.
        script.add(Who::Both, format!("warm s {}", pick(rng, &["20", "200", "400"])));
        let size = rng.u32(1..100);
        script.add(writes, format!("thread t{turn} trickle s {size} 1 {}", rng.u32(5..25)));
        script.add(reads, "epoll_wait e0 8 100");
        script.add(reads, format!("read s {size}"));
        script.add(writes, format!("join t{turn} 100"));
    }
}

/// A busy connection: sometimes the other side is waited for, sometimes it has answered already.
fn rounds(rng: &mut Rng, script: &mut Script, (asks, answers): (Who, Who)) {
    script.add(answers, "thread t1 echo s");
    script.add(asks, format!("rounds e0 s {} {} 300", rng.u32(20..300), rng.u32(1..200)));
    script.add(asks, "close s");
    script.add(answers, "join t1 100");
}

/// A connection that is asked and answers, in an epoll set with others.
pub(super) fn conversation(rng: &mut Rng, script: &mut Script) {
    let (asks, answers) = sides(rng);
    script.add(asks, "epoll e0");
    script.add(asks, format!("eventfd v {}", rng.u32(..2)));
    if rng.bool() {
        script.add(asks, format!("epoll_add e0 v {} {}", pick(rng, &["IN|ET", "OUT|ET"]), rng.u32(1..3)));
    }
    script.add(
        asks,
        format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|RDHUP", "IN|ET|EXCLUSIVE"])),
    );
    rounds(rng, script, (asks, answers));
}
