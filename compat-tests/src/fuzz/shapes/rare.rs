//! Shapes of calls that few programs make: descriptors handed over, disconnecting, signals for input, odd lists.

use fastrand::Rng;

use super::{pick, sides, size};
use crate::fuzz::script::{Script, Who};

/// A connection under two numbers, one of them high, and both in use. (One that is sent away has a relay, dp-preload(7).)
pub(super) fn handed(rng: &mut Rng, script: &mut Script) {
    let (reads, writes) = sides(rng);
    if rng.bool() {
        script.add(reads, "epoll e0");
        script.add(reads, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|ET", "IN|OUT|ET"])));
    }
    if rng.bool() {
        script.add(writes, format!("send s {}", size(rng) % 30_000 + 1));
    }
    if rng.u32(..3) == 0 {
        script.add(reads, "fork f");
    }
    script.add(reads, pick(rng, &["dupmin s d 400", "dup s d"]));
    for _ in 0..rng.u32(3..10) {
        let name = pick(rng, &["s", "d"]);
        match rng.u32(..10) {
            0 | 1 => script.add(reads, format!("send {name} {}", size(rng) % 30_000 + 1)),
            2 | 3 => script.add(writes, format!("send s {}", size(rng) % 30_000 + 1)),
            4 | 5 => script.add(reads, format!("recv {name} {} dontwait", size(rng))),
            6 => script.add(writes, "drain s 1000"),
            7 => script.add(reads, pick(rng, &["close s", "dupmin d s 350", "child f close s"])),
            8 => script.add(reads, "epoll_wait e0 8 5"),
            _ => script.add(reads, format!("poll 5 {name}:IN|RDHUP")),
        }
        script.add(Who::Nobody, "settle 1");
    }
    script.add(writes, pick(rng, &["close s", "shutdown s WR", "send s 10"]));
    script.add(Who::Nobody, "settle 2");
    script.add(reads, "drain d 65536");
    script.add(writes, "drain s 65536");
}

/// Calls that few make, with flags and lists that few give.
pub(super) fn odd(rng: &mut Rng, script: &mut Script) {
    let (one, other) = sides(rng);
    if rng.u32(..3) == 0 {
        script.add(
            one,
            pick(rng, &["setopt s inq 1", "setopt s zerocopy 1", "setopt s stamp 1", "nonblock s 1"]),
        );
    }
    for _ in 0..rng.u32(4..12) {
        let n = size(rng) % 30_000 + 1;
        match rng.u32(..12) {
            0 => script.add(one, format!("pwritev2 s {n} {}", pick(rng, &["", "nowait", "dsync", "hipri"]))),
            1 => script.add(one, format!("sendto s {n}")),
            2 => script.add(one, format!("send s {n} {}", pick(rng, &["eor", "confirm", "cloexec"]))),
            3 => script.add(other, format!("preadv2 s {n} {}", pick(rng, &["", "nowait", "hipri"]))),
            4 => script.add(other, format!("recvfrom s {n} {}", pick(rng, &["", "peek", "dontwait"]))),
            5 => script.add(other, format!("sendfilefrom s {n}")),
            6 => script.add(
                one,
                format!("recvctl s 10 {}", pick(rng, &["errqueue", "cloexec dontwait", "peek dontwait"])),
            ),
            7 => script.add(
                other,
                format!(
                    "recvctl s {n} {}",
                    pick(rng, &["cloexec dontwait", "trunc dontwait", "peek trunc dontwait"])
                ),
            ),
            8 => {
                // A receive of nothing waits for something; a signal ends it as if that had come.
                let zero = pick(
                    rng,
                    &[
                        "send s 0",
                        "recv s 0 dontwait",
                        "recv s 0 peek dontwait",
                        "sendmsg s 0",
                        "recvmsg s 0 dontwait",
                    ],
                );
                script.add(other, zero);
            }
            9 => script.add(
                one,
                pick(
                    rng,
                    &[
                        "state s",
                        "peer s",
                        "getopt s type",
                        "getopt s protocol",
                        "getopt s accepts",
                        "getopt s keepalive",
                    ],
                ),
            ),
            10 => script.add(
                other,
                format!(
                    "recv s {n} {}",
                    pick(rng, &["peek trunc dontwait", "peek waitall dontwait", "waitall dontwait", "trunc"])
                ),
            ),
            _ => {
                let calls = [
                    "send",
                    "sendmsg",
                    "readv",
                    "writev",
                    "writev0",
                    "pread",
                    "lseek",
                    "shutdown",
                    "fionread",
                    "getsockopt",
                    "setsockopt",
                    "shortopt",
                    "dup3",
                    "listen",
                    "accept",
                ];
                let who = if rng.bool() { one } else { other };
                script.add(who, format!("bad s {}", pick(rng, &calls)));
            }
        }
        if rng.bool() {
            script.add(Who::Nobody, "settle 1");
        }
    }
    script.add(other, "drain s 65536");
    script.add(one, pick(rng, &["close s", "shutdown s WR"]));
    script.add(Who::Nobody, "settle 2");
    script.add(other, pick(rng, &["preadv2 s 100", "recvfrom s 100", "sendfilefrom s 100", "recvctl s 100"]));
}

/// A signal that tells of input, and what else F_SETFL changes.
pub(super) fn signalled(rng: &mut Rng, script: &mut Script) {
    let (told, sends) = sides(rng);
    if rng.bool() {
        script.add(sends, format!("send s {}", rng.u32(1..2000)));
        script.add(Who::Nobody, "settle 1");
    }
    script.add(told, "async s 1");
    for _ in 0..rng.u32(3..8) {
        match rng.u32(..6) {
            0 | 1 => {
                script.add(sends, format!("send s {}", rng.u32(1..3000)));
                script.add(Who::Nobody, "settle 1");
                script.add(told, "told");
            }
            2 => script.add(told, format!("recv s {} dontwait", size(rng))),
            3 => script.add(told, format!("send s {}", rng.u32(1..2000))),
            4 => script.add(told, format!("async s {}", rng.u32(..2))),
            _ => script.add(told, "poll 0 s:IN|OUT"),
        }
    }
    script.add(told, "drain s 1000");
    script.add(told, "told");
    script.add(sends, pick(rng, &["close s", "shutdown s WR", "kill9"]));
    script.add(Who::Nobody, "settle 2");
    script.add(told, "told");
}

/// A connection that is ended by a connect to nowhere.
pub(super) fn disconnected(rng: &mut Rng, script: &mut Script) {
    let (goes, stays) = sides(rng);
    if rng.bool() {
        script.add(stays, "epoll e0");
        script.add(stays, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|OUT|ET", "IN|RDHUP"])));
    }
    if rng.bool() {
        script.add(goes, "epoll e0");
        script.add(goes, format!("epoll_add e0 s {} 1", pick(rng, &["IN", "IN|OUT|ET", "IN|RDHUP"])));
    }
    if rng.bool() {
        script.add(goes, format!("send s {}", rng.u32(1..20_000)));
    }
    if rng.bool() {
        script.add(stays, format!("send s {}", rng.u32(1..20_000)));
    }
    if rng.u32(..3) == 0 {
        script.add(goes, "dup s d");
    }
    script.add(Who::Nobody, "settle 1");
    script.add(goes, "unconnect s");
    script.add(Who::Nobody, "settle 2");
    for _ in 0..rng.u32(3..8) {
        let (who, other) = if rng.bool() { (goes, "d") } else { (stays, "s") };
        let calls = [
            "peer s",
            "state s",
            "recv s 1000 dontwait",
            "send s 10",
            "soerror s",
            "poll 5 s:IN|OUT|RDHUP",
            "epoll_wait e0 8 5",
            "fionread s",
            "shutdown s WR",
        ];
        let line = pick(rng, &calls);
        script.add(
            who,
            if rng.u32(..5) == 0 { line.replace(" s", &format!(" {other}")) } else { line.to_owned() },
        );
    }
}

/// Options of the listener, which its connections inherit.
pub(super) fn inherited(rng: &mut Rng, script: &mut Script) {
    let set = pick(
        rng,
        &[
            "setopt listener lowat 50",
            "setopt listener peekoff 0",
            "timeo listener rcv 10",
            "timeo listener snd 10",
            "linger listener 0",
            "linger listener 1",
            "setopt listener inline 1",
            "setopt listener cork 1",
            "setopt listener inq 1",
            "setopt listener stamp 1",
            "nonblock listener 1",
            "setopt listener keepalive 1",
        ],
    );
    // Where the listener does not wait, the connection is there already.
    script.add(Who::Server, set);
    script.add(Who::Both, "open u");
    script.add(Who::Both, format!("warm u {}", pick(rng, &["20", "100"])));
    for _ in 0..rng.u32(3..9) {
        match rng.u32(..9) {
            0 | 1 => script.add(Who::Client, format!("send u {}", rng.u32(1..200))),
            2 => script.add(Who::Client, "send u 1 oob"),
            3 => script.add(Who::Server, "poll 5 u:IN"),
            4 => script.add(Who::Server, format!("recv u {}", rng.u32(1..100))),
            5 => script.add(Who::Server, format!("recv u {} peek dontwait", rng.u32(1..50))),
            6 => script.add(Who::Server, format!("send u {}", rng.u32(1..200))),
            7 => script.add(
                Who::Server,
                pick(
                    rng,
                    &[
                        "getopt u lowat",
                        "getopt u peekoff",
                        "getopt u keepalive",
                        "getopt u inline",
                        "recvctl u 30 dontwait",
                    ],
                ),
            ),
            _ => script.add(Who::Client, "drain u 100"),
        }
        script.add(Who::Nobody, "settle 1");
    }
    if rng.bool() {
        script.add(Who::Client, "send u 10");
        script.add(Who::Nobody, "settle 1");
    }
    script.add(Who::Server, "close u");
    script.add(Who::Nobody, "settle 2");
    script.add(Who::Client, "drain u 1000");
    script.add(Who::Client, "send u 10");
}

/// A sender that finds no room any more when something else happens.
pub(super) fn blocked(rng: &mut Rng, script: &mut Script) {
    let (sends, other) = sides(rng);
    if rng.bool() {
        script.add(other, format!("send s {}", rng.u32(1..100)));
    }
    let call = pick(rng, &["send", "write", "writev", "sendmsg", "sendfile"]);
    script.add(sends, format!("thread t1 {call} s 9000000"));
    script.add(Who::Nobody, "settle 20");
    // Not among these: a peer that shuts down both directions and stays. TCP resets such a sender where bytes of it come to the peer
    // behind that. Where all that fits is there already, as after a second, nothing comes any more, and natively it waits on, too.
    let (who, what) = match rng.u32(..7) {
        0 => (sends, "shutdown s WR"),
        1 => (sends, "shutdown s RDWR"),
        2 => (sends, "unconnect s"),
        3 => (other, "kill9"),
        4 => (other, "_exit 0"),
        5 => (other, "unconnect s"),
        _ => (other, "close s"),
    };
    script.add(who, what);
    script.add(Who::Nobody, "settle 20");
    script.add(sends, "join t1 200");
    for _ in 0..rng.u32(1..4) {
        script.add(
            sends,
            pick(rng, &["send s 10 dontwait", "soerror s", "poll 5 s:IN|RDHUP", "recv s 200 dontwait"]),
        );
    }
}
