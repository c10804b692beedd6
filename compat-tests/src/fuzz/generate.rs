//! Scripts out of a number: the same number, the same script.

use fastrand::Rng;

use super::script::{Script, Who};
use super::shapes::{pick, size, ALL, ALONE, EARLY};

/// The script of a seed; `shape` names the only kind that is wanted.
pub fn generate(seed: u64, shape: Option<&str>) -> Script {
    let mut rng = Rng::with_seed(seed);
    let mut script = Script::default();
    if rng.u32(..4) == 0 {
        script.add(Who::Nobody, format!("env DP_CHAOS={}", rng.u32(1..1000)));
    }
    if rng.u32(..5) == 0 {
        let settings = [
            "DP_SPIN=1000000",
            "DP_SPIN=1000000",
            "DP_SPIN=0",
            "DP_RING=4096",
            "DP_RING=1048576",
            "DP_LOG=/dev/null:debug",
        ];
        script.add(Who::Nobody, format!("env {}", pick(&mut rng, &settings)));
    }
    let connections: &[&str] = if rng.u32(..4) == 0 { &["s", "t"] } else { &["s"] };
    let warm = rng.u32(..8) > 0;
    let early = rng.u32(..4) == 0;
    for name in connections {
        if early && *name == "s" {
            let events = pick(&mut rng, &["IN|ET", "IN|OUT|ET", "IN|ET|RDHUP", "IN|ONESHOT"]);
            script.add(Who::Client, format!("epoll {EARLY}"));
            script.add(Who::Both, format!("open s {EARLY} {events} 8"));
        } else {
            script.add(Who::Both, format!("open {name}"));
        }
        if warm {
            script.add(Who::Both, format!("warm {name} 20"));
        }
    }
    let shapes: Vec<_> = ALL.iter().filter(|(name, _)| shape.is_none_or(|wanted| wanted == *name)).collect();
    if shape == Some("wild") || shapes.is_empty() || (shape.is_none() && rng.u32(..3) == 0) {
        wild(&mut rng, &mut script, connections);
        return script;
    }
    let start = script.0.len();
    let chosen = shapes[rng.usize(..shapes.len())];
    chosen.1(&mut rng, &mut script);
    // Something that has nothing to do with it, now and then.
    if rng.u32(..3) == 0 && !ALONE.contains(&chosen.0) {
        for _ in 0..rng.u32(1..3) {
            let mut extra = Script::default();
            let who = if rng.bool() { Who::Server } else { Who::Client };
            let name = connections[rng.usize(..connections.len())];
            one(&mut rng, &mut extra, who, name);
            let at = rng.usize(start..=script.0.len());
            script.0.splice(at..at, extra.0);
        }
    }
    script
}

fn wild(rng: &mut Rng, script: &mut Script, connections: &[&str]) {
    for who in [Who::Server, Who::Client] {
        if rng.bool() {
            script.add(who, "epoll e0");
            script.add(who, "eventfd v 0");
            script.add(who, format!("epoll_add e0 s {} 1", modes(rng)));
        }
    }
    for _ in 0..rng.u32(4..16) {
        let who = if rng.bool() { Who::Server } else { Who::Client };
        let name = connections[rng.usize(..connections.len())];
        one(rng, script, who, name);
    }
}

fn option(rng: &mut Rng, name: &str) -> String {
    match pick(rng, &["getopt", "setopt"]) {
        "setopt" => {
            let (what, value) =
                [("nodelay", 1), ("inline", 0), ("peekoff", 0), ("lowat", 20)][rng.usize(..4)];
            format!("setopt {name} {what} {value}")
        }
        ask => format!("{ask} {name} {}", pick(rng, &["nodelay", "cork", "lowat", "peekoff"])),
    }
}

fn modes(rng: &mut Rng) -> &'static str {
    pick(
        rng,
        &[
            "IN",
            "OUT",
            "IN|OUT",
            "IN|ET",
            "IN|OUT|ET",
            "IN|RDHUP",
            "IN|RDHUP|ET",
            "IN|ONESHOT",
            "RDHUP",
            "IN|ET|EXCLUSIVE",
        ],
    )
}

fn one(rng: &mut Rng, script: &mut Script, who: Who, name: &str) {
    let line = match rng.u32(..44) {
        0..=6 => {
            format!("{} {name} {}", pick(rng, &["send", "write", "writev", "sendmsg", "sendfile"]), size(rng))
        }
        7..=13 => {
            format!("{} {name} {}", pick(rng, &["recv", "read", "readv", "recvmsg", "recvctl"]), size(rng))
        }
        40 => format!("{} {name} {} dontwait", pick(rng, &["spliceto", "splicefrom"]), size(rng)),
        41 => format!("timeo {name} {} {}", pick(rng, &["rcv", "snd"]), pick(rng, &["0", "10"])),
        42 => option(rng, name),
        43 => pick(rng, &["again s", "closerange d", "closerange s", "atmark s"]).into(),
        14 => format!(
            "recv {name} {} {}",
            size(rng),
            pick(rng, &["peek", "dontwait", "waitall", "trunc dontwait"])
        ),
        15 => format!("sendmmsg {name} {} {}", rng.u32(1..8), size(rng) % 5000),
        16 => format!("recvmmsg {name} {} {} 0 dontwait", rng.u32(1..8), size(rng) % 5000 + 1),
        17 => format!("drain {name} {}", size(rng)),
        18 | 19 => {
            format!("epoll_add e0 {} {} {}", pick(rng, &[name, "d", "v", "s"]), modes(rng), rng.u32(1..4))
        }
        20 => format!("epoll_mod e0 {} {} {}", pick(rng, &[name, "d", "v"]), modes(rng), rng.u32(1..4)),
        21 => format!("epoll_del e0 {} IN 0", pick(rng, &[name, "d", "v"])),
        22..=25 => format!(
            "{} e0 8 {}",
            pick(rng, &["epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_raw"]),
            pick(rng, &["0", "10"])
        ),
        // So often that the kernel is asked in between, see known.rs.
        26 => format!("epoll_seen e0 {} 200", rng.u32(1..4)),
        27 | 28 => format!(
            "poll {} {name}:{} v:IN|OUT",
            pick(rng, &["0", "10"]),
            pick(rng, &["IN|OUT", "IN", "OUT|RDHUP", "IN|RDHUP"])
        ),
        29 => format!("select {} {name}:IN|OUT v:IN", pick(rng, &["0", "10"])),
        30 => format!("fionread {name}"),
        31 => format!("soerror {name}"),
        32 => format!("dup {name} d"),
        33 => format!(
            "{} {} {}",
            pick(rng, &["dup2", "dup3"]),
            pick(rng, &["d", name]),
            pick(rng, &["d", name])
        ),
        34 => format!("close {}", pick(rng, &[name, "d", "d"])),
        35 => format!("shutdown {name} {}", pick(rng, &["WR", "RD", "RDWR"])),
        36 => pick(rng, &["evwrite v", "evread v", "eventfd v 1", "epoll e0"]).into(),
        37 => format!("nonblock {name} {}", rng.u32(..2)),
        38 => "settle 2".into(),
        _ => format!("linger {name} {}", rng.u32(..2) * 20),
    };
    script.add(if line.starts_with("settle") { Who::Nobody } else { who }, line);
}
