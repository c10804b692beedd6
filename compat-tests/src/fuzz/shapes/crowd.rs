//! Several at once on one connection: threads and processes that send, or receive, at the same time; a fork beside threads that wait;
//! senders that leave a full send.

use fastrand::Rng;

use super::{pick, sides};
use crate::fuzz::script::{Script, Who};

/// At most so many bytes are on their way at the same time. There is room for all of them then, so that no send is taken apart.
const WHOLE: u32 = 60_000;

/// Threads, and now and then a child, send at the same time, and one or two threads receive; on both sides at once now and then.
pub(super) fn crowd(rng: &mut Rng, script: &mut Script) {
    let (sends, receives) = sides(rng);
    let children = rng.u32(..3) == 0;
    if children {
        script.add(sends, "fork f");
    }
    let both_ways = rng.u32(..4) == 0;
    script.add(sends, "hold");
    script.add(receives, "hold");
    let ends = ["shutdown s WR", "shutdown s WR", "close s"];
    let mut ways = vec![(sends, receives, children)];
    if both_ways {
        ways.push((receives, sends, false));
    }
    let readers: Vec<_> =
        ways.iter().map(|&(from, to, child)| one_way(rng, script, (from, to), child)).collect();
    for who in [receives, sends] {
        script.add(who, "go");
    }
    for &(from, _, child) in &ways {
        script.add(from, "join w1 1000");
        script.add(from, format!("{}join w2 1000", if child { "child f " } else { "" }));
    }
    if children {
        script.add(sends, "child f close s");
    }
    for &(from, ..) in &ways {
        script.add(from, if both_ways { "shutdown s WR" } else { pick(rng, &ends) });
    }
    for (&(_, to, _), readers) in ways.iter().zip(readers) {
        (1..=readers).for_each(|reader| script.add(to, format!("join r{reader} 1000")));
        script.add(to, "gathered s");
    }
}

/// The threads of one direction; how many receive.
fn one_way(rng: &mut Rng, script: &mut Script, (from, to): (Who, Who), child: bool) -> u32 {
    let readers = rng.u32(1..3);
    let (count, size) = match rng.u32(..3) {
        0 => (rng.u32(2..40), rng.u32(1..150)),
        1 => (rng.u32(2..30), rng.u32(100..6000)),
        _ => (rng.u32(1..6), rng.u32(6000..300_000)),
    };
    let beside = match readers {
        1 if 2 * count * size <= WHOLE => format!("whole={size}"),
        1 => String::new(),
        _ => "beside".into(),
    };
    for reader in 1..=readers {
        let piece = [rng.u32(1..100), rng.u32(100..4000), 65536][rng.usize(..3)];
        script.add(to, format!("thread r{reader} gather s {piece} {beside}"));
    }
    for (writer, prefix) in [(1, ""), (2, if child { "child f " } else { "" })] {
        let call = pick(rng, &["send", "write", "writev", "sendmsg"]);
        script.add(from, format!("{prefix}thread w{writer} mark s {writer} {count} {size} by={call}"));
    }
    readers
}

/// A process with threads in a wait, or in a send that finds no room, forks; the child uses the connection, or is just there.
pub(super) fn forked_beside(rng: &mut Rng, script: &mut Script) {
    let (forks, other) = sides(rng);
    script.add(forks, "epoll e0");
    script.add(forks, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|RDHUP"])));
    script.add(forks, "epoll_wait e0 8 0");
    let takes = [
        "recv s 100",
        "read s 100",
        "recvmsg s 100",
        "recv s 1 waitall",
        "recvmmsg s 1 10 0",
        "splicefrom s 100",
    ];
    let asks = ["poll -1 s:IN", "select -1 s:IN", "epoll_wait e0 8 -1", "recv s 10 peek"];
    let full = rng.u32(..3) == 0;
    let waits = !full || rng.bool();
    if full {
        script.add(forks, format!("thread t1 {} s 6000000", pick(rng, &["send", "write", "sendmsg"])));
    }
    if waits {
        script.add(
            forks,
            format!("thread t2 {}", if rng.bool() { pick(rng, &takes) } else { pick(rng, &asks) }),
        );
    }
    script.add(forks, "fork f");
    if rng.u32(..4) == 0 {
        script.add(forks, "fork g");
        script.add(forks, pick(rng, &["child g _exit 0", "child g kill9", "child g close s"]));
    }
    for _ in 0..rng.u32(1..5) {
        in_child(rng, script, (forks, other), full);
    }
    if full {
        script.add(other, "drain s 65536");
        script.add(other, "drain s 65536");
        script.add(forks, "join t1 400");
    }
    if waits {
        script.add(other, format!("send s {}", rng.u32(1..100)));
        script.add(Who::Nobody, "settle 3");
        script.add(forks, "join t2 150");
    }
    script.add(forks, "drain s 1000");
    for _ in 0..rng.u32(1..5) {
        in_child(rng, script, (forks, other), false);
        script.add(other, "drain s 1000");
    }
    let mut ends = vec!["close s", pick(rng, &["child f _exit 0", "child f kill9", "child f close s"])];
    rng.shuffle(&mut ends);
    ends.iter().for_each(|end| script.add(forks, end));
    script.add(Who::Nobody, "settle 4");
    script.add(other, "drain s 1000");
    script.add(other, pick(rng, &["send s 10", "poll 5 s:IN|RDHUP", "soerror s"]));
}

/// Nothing that takes what somebody waits for, and nothing that sends where that finds no room.
fn in_child(rng: &mut Rng, script: &mut Script, (forks, other): (Who, Who), full: bool) {
    match rng.u32(..8) {
        0..=2 if !full => script.add(forks, format!("child f send s {}", rng.u32(1..3000))),
        3 if !full => script.add(forks, format!("send s {}", rng.u32(1..3000))),
        4 => script.add(forks, "child f poll 5 s:IN"),
        5 => {
            script.add(forks, pick(rng, &["child f close s", "child f dup s d", "child f epoll_wait e0 8 5"]))
        }
        6 => script.add(forks, pick(rng, &["child f kill9", "child f _exit 0", "child f fork k"])),
        _ if !full => script.add(other, "drain s 1000"),
        _ => script.add(Who::Nobody, "settle 2"),
    }
    script.add(Who::Nobody, "settle 1");
}

/// Sends that find no room are left: by a thread that is cancelled in one, or a handler that jumps out. How much of such a one has gone
/// nobody knows; what is sent later comes behind it, and whole.
pub(super) fn left_sends(rng: &mut Rng, script: &mut Script) {
    let (sends, other) = sides(rng);
    if rng.u32(..3) == 0 {
        script.add(sends, "fork f");
    }
    let cancels = rng.bool();
    // No thread is cancelled in sendfile(2).
    let call = pick(rng, &["send", "write", "writev", "sendmsg", if cancels { "send" } else { "sendfile" }]);
    let size = pick(rng, &["9000000", "9000000", "12000000"]);
    if cancels {
        script.add(sends, format!("thread t1 mark s 1 1 {size} by={call}"));
        script.add(Who::Nobody, format!("settle {}", pick(rng, &["1", "5", "30"])));
        script.add(sends, "cancel t1");
    } else {
        let soon = pick(rng, &["3", "5", "8", "12", "20", "60"]);
        script.add(sends, format!("leap {soon} mark s 1 1 {size} by={call}"));
    }
    for _ in 0..rng.u32(..3) {
        script
            .add(sends, pick(rng, &["poll 0 s:IN", "recv s 10 dontwait", "soerror s", "fork g", "dup s d"]));
    }
    // Another thread waits behind what the first one has left there, or the one that jumped out goes on when there is room again. (Not the
    // other way round: under the shim what a thread has left is found by itself, or when it has ended.)
    let next = format!("mark s 2 {} {}", rng.u32(1..20), rng.u32(1..3000));
    if cancels {
        script.add(sends, format!("thread t2 {next}"));
    }
    script.add(other, "thread r1 gather s 65536");
    script.add(sends, if cancels { "join t2 500" } else { &next });
    let child = if script.0.iter().any(|line| line.word(0) == "fork" && line.word(1) == "f") {
        "child f "
    } else {
        ""
    };
    script.add(sends, format!("{child}mark s 3 {} {}", rng.u32(1..20), rng.u32(1..3000)));
    script.add(other, format!("send s {}", rng.u32(1..300)));
    script.add(sends, "recv s 300");
    // A child or a copy keeps the connection open, which a close then would not end.
    let shared = script.0.iter().any(|line| matches!(line.word(0), "fork" | "dup"));
    script.add(
        sends,
        if shared { "shutdown s WR" } else { pick(rng, &["shutdown s WR", "close s", "close s"]) },
    );
    script.add(other, "join r1 800");
    script.add(other, "gathered s some=1");
}
