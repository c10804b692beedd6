//! The rows of the table. Each is measured in the programs of node 1, which tell their medians through a pipe.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use dp_node::Limits;
use dpfd::Addr;

use crate::cables::{shape, tcp_leaves, By, Cables};
use crate::ends::{
    ask_tcp, connect, flood, flood_by, flood_raw, flood_tcp, median, one_way, recv, servers, servers_with,
    Gateways, ECHO, SINK,
};
use crate::kit::{open, stay_on, Child, Node};
use crate::{Effort, Figure};

pub const NAMES: [&str; 12] = [
    "latency",
    "inside",
    "stream",
    "inside-stream",
    "shaped",
    "speed",
    "half-power",
    "raw",
    "loss",
    "stripes",
    "three",
    "edges",
];

const LONG: usize = 64 << 10;

/// What a row measures.
pub fn about(name: &str) -> &'static str {
    match name {
        "latency" => "round trips of one byte, looking and asleep, beside UDP's; asleep beside TCP's, too",
        "inside" => "the same with the gateways in the programs",
        "stream" => "messages of 64 KiB, a processor a side, beside a TCP stream",
        "inside-stream" => "the same with the gateways in the programs",
        "shaped" => "messages of 64 KiB on cables of 100 and 1000 Mbit/s, beside what framing leaves",
        "speed" => "messages of 64 KiB on a cable of 100 Mbit/s, and one byte beside them, where the graph tells the speed and where not",
        "half-power" => "messages of 16 to 384 bytes on a cable of 100 Mbit/s",
        "raw" => "messages of 1 KiB on cables of 100 and 1000 Mbit/s, beside raw ones",
        "loss" => "messages of 64 KiB while a frame in a hundred is lost",
        "stripes" => "messages of 64 KiB by two routes in turn, each on a cable of 100 Mbit/s",
        "three" => "three senders to one receiver, by DP and by TCP",
        _ => "ten edges, alone and among 10 000",
    }
}

pub fn measure(name: &str, effort: Effort) -> Vec<Figure> {
    match name {
        "latency" => latency(effort, Gateways::Outside),
        "inside" => latency(effort, Gateways::Inside),
        "stream" => stream(effort, Gateways::Outside),
        "inside-stream" => stream(effort, Gateways::Inside),
        "shaped" => [100, 1000].into_iter().flat_map(|mbit| shaped(effort, mbit, false)).collect(),
        "speed" => speed(effort),
        "half-power" => half_power(effort),
        "raw" => raw(effort),
        "loss" => shaped(effort, 100, true),
        "stripes" => stripes(effort),
        "three" => three(effort),
        _ => edges(effort),
    }
}

/// What a process of the node found: numbers.
fn told(node: &Node, f: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
    let child = node.run(|| {
        let found = f();
        found.iter().all(|number| theirs.write_all(&number.to_ne_bytes()).is_ok())
    });
    drop(theirs);
    let mut bytes = Vec::new();
    ours.read_to_end(&mut bytes).expect("what it found");
    child.ok();
    bytes.chunks_exact(8).map(|word| f64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
}

fn there(dpid: u16) -> Addr {
    Addr { nid: 2, dpid }
}

fn end(all: Vec<Child>) {
    all.into_iter().for_each(Child::kill);
}

/// One byte, one way.
fn latency(effort: Effort, gateways: Gateways) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (by, looks, most) in [
        (By::Udp, true, 1.3),
        (By::Sealed, true, 1.3),
        (By::Eth, true, 1.2),
        (By::Xdp, true, 1.2),
        (By::Udp, false, 1.5),
        (By::Eth, false, 1.5),
        (By::Xdp, false, 1.5),
    ] {
        let cables = Cables::new(2, by);
        let spin = Duration::from_micros(if looks { 200 } else { 0 });
        let mut all = Vec::new();
        if gateways == Gateways::Outside {
            all.extend(cables.nodes.iter().map(|node| node.gateway_that_spins(spin)));
        }
        all.extend(servers_with(gateways, &cables.nodes[1], looks, None));
        if !cables.is_as_wanted(by) {
            end(all);
            continue;
        }
        let found = told(&cables.nodes[0], || {
            let _gateway = gateways.start(&cables.nodes[0]);
            let e = gateways.open(0, looks);
            let udp = UdpSocket::bind("10.1.0.1:0").expect("a socket");
            udp.connect("10.1.0.2:9000").expect("a route");
            udp.set_nonblocking(looks).expect("a flag");
            let tcp = (!looks).then(|| connect(2));
            let mut byte = [0; 1];
            let mut results: [Vec<f64>; 3] = Default::default();
            for _ in 0..effort.turns {
                results[0].push(one_way(effort.rounds, || {
                    e.send_to(b"x", there(ECHO)).expect("room");
                    recv(&e, looks, &mut byte);
                }));
                results[1].push(one_way(effort.rounds, || {
                    udp.send(b"x").expect("room");
                    while udp.recv(&mut byte).is_err() {}
                }));
                if let Some(tcp) = &tcp {
                    results[2].push(one_way(effort.rounds, || ask_tcp(tcp)));
                }
            }
            results.into_iter().filter(|all| !all.is_empty()).map(median).collect()
        });
        end(all);
        let how = if looks { "looking" } else { "asleep" };
        let what = format!("1 B one way, {}{}, {how}", gateways.word(), by.word());
        figures.push(Figure::new(what.clone(), "us", found[0], "UDP", found[1]).at_most(most));
        // No target: what a connection that went by the gateways would have to beat (docs/TCP-BETWEEN-NODES.md).
        figures.extend(found.get(2).map(|&tcp| Figure::new(what, "us", found[0], "TCP", tcp)));
    }
    figures
}

/// Medians of floods of messages, and of a TCP stream.
fn floods(gateways: Gateways, node: &Node, effort: Effort, cpu: Option<usize>) -> [f64; 2] {
    let found = told(node, || {
        stay_on(cpu);
        let _gateway = gateways.start(node);
        let (e, tcp) = (gateways.open(0, false), connect(2));
        let mut results: [Vec<f64>; 2] = Default::default();
        for _ in 0..effort.turns {
            results[0].push(flood(&e, there(SINK), LONG, effort.flood));
            results[1].push(flood_tcp(&tcp, LONG, effort.flood));
        }
        results.map(median).to_vec()
    });
    [found[0], found[1]]
}

/// 64 KiB messages, each node with a processor of its own.
fn stream(effort: Effort, gateways: Gateways) -> Vec<Figure> {
    let mut figures = Vec::new();
    for by in [By::Udp, By::Sealed, By::Eth, By::Xdp, By::Jumbo] {
        let cables = Cables::new(2, by);
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let cpu = |n: usize| (cpus > 1).then_some(n);
        let gateway = |n: usize| cables.nodes[n].gateway_with(Duration::ZERO, Limits::default(), cpu(n));
        let mut all = Vec::new();
        if gateways == Gateways::Outside {
            all.extend([gateway(0), gateway(1)]);
        }
        all.extend(servers_with(gateways, &cables.nodes[1], false, cpu(1)));
        if !cables.is_as_wanted(by) {
            end(all);
            continue;
        }
        let [dp, tcp] = floods(gateways, &cables.nodes[0], effort, cpu(0));
        let what = format!("64 KiB, a processor a side, {}{}", gateways.word(), by.word());
        figures.push(Figure::new(what.clone(), "MB/s", dp, "TCP", tcp).at_least(1.0));
        if by == By::Eth {
            // What TCP does where it has to make the frames of the cable itself, as these gateways do.
            cables.networks.iter().for_each(|network| drop(network.ip("link set dp0 gso_max_segs 1")));
            let [dp, tcp] = floods(gateways, &cables.nodes[0], effort, cpu(0));
            figures.push(Figure::new(what, "MB/s", dp, "TCP, a frame at a time", tcp));
        }
        end(all);
    }
    figures
}

/// On a cable of so many Mbit/s: beside what framing leaves, and TCP beside what its own does.
fn shaped(effort: Effort, mbit: u32, lossy: bool) -> Vec<Figure> {
    let mut figures = Vec::new();
    let ways: &[By] = if lossy { &[By::Udp] } else { &[By::Udp, By::Sealed, By::Eth] };
    for &by in ways {
        let cables = Cables::new(2, by);
        cables.shape(mbit);
        if lossy && !cables.lose() {
            println!("SKIP: loss: no nft(8), or a kernel without numgen");
            return figures;
        }
        let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
        all.extend(servers(&cables.nodes[1], false, None));
        let [dp, tcp] = floods(Gateways::Outside, &cables.nodes[0], effort, None);
        end(all);
        let link = f64::from(mbit) / 8.0;
        let how = if lossy { ", a frame in a hundred lost" } else { "" };
        let what = |name: &str| format!("64 KiB at {mbit} Mbit/s{how}, {name}");
        let least = if lossy { 0.9 } else { 0.98 };
        let left = link * by.leaves(LONG);
        let beside = "what framing leaves";
        figures.push(Figure::new(what(by.word()), "MB/s", dp, beside, left).at_least(least));
        figures.push(Figure::new(what("TCP"), "MB/s", tcp, beside, link * tcp_leaves()));
    }
    figures
}

/// A flow that is told how quick the link is, beside one that finds that out: what it carries, and how long another's byte waits
/// behind it.
fn speed(effort: Effort) -> Vec<Figure> {
    let found = ["", "speed = \"100Mbit\"\n"].map(|more| {
        let cables = Cables::told(2, By::Udp, more);
        cables.shape(100);
        let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
        all.extend(servers(&cables.nodes[1], false, None));
        let found = told(&cables.nodes[0], || {
            let e = open(0);
            let turn = |_| flood(&e, there(SINK), LONG, effort.flood);
            let carried = median((0..effort.turns).map(turn).collect());
            let time = effort.flood * effort.turns as u32;
            let flooding = std::thread::spawn(move || flood(&e, there(SINK), LONG, time));
            let (asks, mut byte, mut waits) = (open(0), [0; 1], Vec::new());
            while !flooding.is_finished() {
                waits.push(one_way(1, || {
                    asks.send_to(b"x", there(ECHO)).expect("room");
                    recv(&asks, false, &mut byte);
                }));
                std::thread::sleep(Duration::from_millis(2));
            }
            vec![carried, median(waits)]
        });
        let status = cables.nodes[0].status().expect("it runs");
        let repeats = status.nodes[0].flows.iter().map(|flow| flow.repeats).sum::<u64>();
        eprintln!("speed: {repeats} parts sent again, {more:?}");
        end(all);
        found
    });
    let what = |name: &str| format!("{name}, 64 KiB at 100 Mbit/s, udp, speed told");
    let [finds, told] = found;
    vec![
        Figure::new(what("what comes"), "MB/s", told[0], "found out", finds[0]),
        Figure::new(what("1 B one way beside it"), "us", told[1], "found out", finds[1]),
    ]
}

/// The length of messages that use half of what long ones do, at 100 Mbit/s.
fn half_power(effort: Effort) -> Vec<Figure> {
    let sizes = [16, 32, 48, 64, 96, 128, 160, 192, 256, 384, LONG];
    let mut figures = Vec::new();
    for by in [By::Udp, By::Eth] {
        let cables = Cables::new(2, by);
        cables.shape(100);
        let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
        all.extend(servers(&cables.nodes[1], false, None));
        let found = told(&cables.nodes[0], || {
            let e = open(0);
            let of = |len| {
                median((0..effort.turns).map(|_| flood(&e, there(SINK), len, effort.flood / 2)).collect())
            };
            sizes.into_iter().map(of).collect()
        });
        end(all);
        let half = found[sizes.len() - 1] / 2.0;
        let pairs: Vec<(f64, f64)> = sizes.iter().map(|size| *size as f64).zip(found).collect();
        let crossed = pairs.windows(2).find(|pair| pair[0].1 < half && pair[1].1 >= half);
        let length = crossed.map_or(f64::NAN, |pair| {
            pair[0].0 + (pair[1].0 - pair[0].0) * (half - pair[0].1) / (pair[1].1 - pair[0].1)
        });
        let what = format!("half-power length at 100 Mbit/s, {}", by.word());
        figures.push(Figure::new(what, "B", length, "GAMMA", 192.0).at_most(1.0));
    }
    figures
}

/// What the reliable layer costs: messages that each lie in a frame, so that a raw one that is lost takes no other along.
fn raw(effort: Effort) -> Vec<Figure> {
    let mut figures = Vec::new();
    for mbit in [100, 1000] {
        let by = By::Udp;
        let cables = Cables::new(2, by);
        cables.shape(mbit);
        let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
        all.extend(servers(&cables.nodes[1], false, None));
        let found = told(&cables.nodes[0], || {
            let (e, raw) = (open(0), open(0));
            raw.set_raw();
            let mut results: [Vec<f64>; 2] = Default::default();
            for _ in 0..effort.turns {
                results[0].push(flood(&e, there(SINK), 1024, effort.flood));
                results[1].push(flood_raw(&raw, &e, there(SINK), 1024, effort.flood));
            }
            results.map(median).to_vec()
        });
        end(all);
        let what = format!("1 KiB at {mbit} Mbit/s, {}", by.word());
        figures.push(Figure::new(what, "MB/s", found[0], "raw, what came", found[1]).at_least(0.97));
    }
    figures
}

/// One flow whose messages name two routes in turn, on a cable each; beside all of both cables.
fn stripes(effort: Effort) -> Vec<Figure> {
    let by = By::Both;
    let cables = Cables::new(2, by);
    cables.shape(100);
    let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
    all.extend(servers(&cables.nodes[1], false, None));
    let found = told(&cables.nodes[0], || {
        let e = open(0);
        let turn = |_| flood_by(&e, there(SINK), &["udp", "eth"], LONG, effort.flood);
        vec![median((0..effort.turns).map(turn).collect())]
    });
    end(all);
    let left = 2.0 * 12.5 * by.leaves(LONG);
    let what = format!("64 KiB at 100 Mbit/s each, {} in turn", by.word());
    vec![Figure::new(what, "MB/s", found[0], "what framing leaves of both", left)]
}

/// Three senders to one receiver, whose port of the switch has 100 Mbit/s.
fn three(effort: Effort) -> Vec<Figure> {
    let by = By::Udp;
    let cables = Cables::new(4, by);
    shape(cables.switch.as_ref().expect("a switch"), "port2", 100);
    let mut all: Vec<Child> = cables.nodes.iter().map(Node::gateway).collect();
    all.extend(servers(&cables.nodes[1], false, None));
    let senders = [0, 2, 3];
    let time = 4 * effort.flood;
    let shares = |work: &(dyn Fn() -> f64 + Sync)| -> Vec<f64> {
        std::thread::scope(|scope| {
            let run = |at: usize| {
                scope.spawn({
                    let node = &cables.nodes[at];
                    move || told(node, || vec![work()])[0]
                })
            };
            let running: Vec<_> = senders.into_iter().map(run).collect();
            running.into_iter().map(|thread| thread.join().expect("a share")).collect()
        })
    };
    let by_dp = |_| shares(&|| flood(&open(0), there(SINK), LONG, time));
    let dp: Vec<Vec<f64>> = (0..effort.turns).map(by_dp).collect();
    let by_tcp = |_| shares(&|| flood_tcp(&connect(2), LONG, time));
    let tcp: Vec<Vec<f64>> = (0..effort.turns).map(by_tcp).collect();
    end(all);
    let sum = |all: &[Vec<f64>]| median(all.iter().map(|shares| shares.iter().sum()).collect());
    // How far the one that is farthest is from its third.
    let apart = |all: &[Vec<f64>]| {
        let worst = |shares: &Vec<f64>| {
            let third = shares.iter().sum::<f64>() / 3.0;
            shares.iter().map(|share| (share / third - 1.0).abs()).fold(0.0, f64::max)
        };
        median(all.iter().map(worst).collect())
    };
    let left = 12.5 * by.leaves(LONG);
    vec![
        Figure::new("three senders, sum".into(), "MB/s", sum(&dp), "what framing leaves", left)
            .at_least(0.95),
        Figure::new("three senders, farthest from a third".into(), "", apart(&dp), "a tenth", 0.1)
            .at_most(1.0),
        Figure::new(
            "three TCP senders, sum".into(),
            "MB/s",
            sum(&tcp),
            "what framing leaves",
            12.5 * tcp_leaves(),
        ),
        Figure::new("three TCP senders, farthest from a third".into(), "", apart(&tcp), "a tenth", 0.1),
    ]
}

/// 10 000 edges between two nodes, of which ten are used, beside ten alone.
fn edges(effort: Effort) -> Vec<Figure> {
    let rate = |endpoints: u16| {
        let cables = Cables::new(2, By::Udp);
        let limits = Limits { flows: 12_000, ..Limits::default() };
        let gateway = |n: usize| cables.nodes[n].gateway_with(Duration::from_micros(50), limits, None);
        let mut all = vec![gateway(0), gateway(1)];
        all.push(cables.nodes[1].run(|| {
            let mut sinks: Vec<_> = (0..100).map(|n| open(SINK + n)).collect();
            // All but ten are there to have edges.
            let idle = sinks.split_off(10);
            std::thread::spawn(move || loop {
                idle.iter().for_each(|e| {
                    e.set_nonblocking(true).expect("a flag");
                    while e.recv().is_ok() {}
                });
                std::thread::sleep(Duration::from_millis(20));
            });
            let threads: Vec<_> = sinks
                .into_iter()
                .map(|sink| {
                    std::thread::spawn(move || loop {
                        let message = sink.recv().expect("a message");
                        let from = message.from();
                        if message.is_empty() {
                            drop(message);
                            sink.send_to(b"x", from).expect("room");
                        }
                    })
                })
                .collect();
            threads.into_iter().all(|thread| thread.join().is_ok())
        }));
        let found = told(&cables.nodes[0], || {
            let senders: Vec<_> = (0..endpoints).map(|_| open(0)).collect();
            if endpoints > 10 {
                for e in &senders {
                    (0..100).for_each(|n| e.send_to(b"hello", there(SINK + n)).expect("room"));
                }
                std::thread::sleep(Duration::from_secs(5));
            }
            let message = vec![0; 1024];
            let turn = |_| {
                let start = std::time::Instant::now();
                let mut bytes = 0;
                while start.elapsed() < effort.flood {
                    for (n, e) in (0..10).zip(&senders) {
                        (0..16).for_each(|_| e.send_to(&message, there(SINK + n)).expect("room"));
                        bytes += 16 * message.len();
                    }
                }
                for (n, e) in (0..10).zip(&senders) {
                    e.send_to(b"", there(SINK + n)).expect("room");
                    e.recv().expect("an answer");
                }
                bytes as f64 / start.elapsed().as_secs_f64() / 1e6
            };
            vec![median((0..effort.turns).map(turn).collect())]
        });
        end(all);
        found[0]
    };
    let (ten, all) = (rate(10), rate(100));
    vec![Figure::new("10 000 edges, ten used, 1 KiB".into(), "MB/s", all, "ten edges", ten).at_least(0.97)]
}
