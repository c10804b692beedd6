//! What a frame takes, beside a plain UDP socket on the same veth pair. Ignored, as nothing in it can fail:
//! `cargo test --release -p dp-route --test routes -- --ignored --nocapture measure`.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use dp_route::eth::Eth;
use dp_route::udp::{Options, Udp};
use dp_route::xdp::Xdp;
use dp_route::{Frames, PeerAddr, Received, Route};
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use crate::kit::{nodes_are_possible, Node};

const ROUNDS: usize = 20_000;
const FRAME: usize = 1400;
const TIME: Duration = Duration::from_secs(1);

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).unwrap();
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

/// Microseconds of half a round trip, the median. `turn` sends a byte and looks until the answer is there.
fn p50(mut turn: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            turn();
            start.elapsed().as_secs_f64() * 5e5
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// Looks for a frame, two seconds at most. Whether there was one.
fn look(route: &mut dyn Route, into: &mut Received) -> bool {
    let end = Instant::now() + Duration::from_secs(2);
    while route.recv(into).unwrap_or(0) == 0 {
        if Instant::now() > end {
            return false;
        }
    }
    true
}

fn of_route(left: &Node, right: &Node, mut a: Box<dyn Route>, mut b: Box<dyn Route>) -> [f64; 4] {
    let (here, there) = (a.local(), b.local());
    let one = |route: &mut dyn Route, to: &PeerAddr| {
        route.send(to, Frames::new(&[1], &[1]).unwrap()).unwrap();
    };
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || {
            right.run(move || {
                pin(1);
                let mut into = Received::new(32, b.slot());
                for _ in 0..ROUNDS {
                    look(&mut *b, &mut into);
                    one(&mut *b, &here);
                }
                // Then what comes in a second.
                let mut frames = 0;
                let before = *b.counters();
                while look(&mut *b, &mut into) {
                    frames = b.counters().received - before.received;
                }
                (frames, b.counters().received_calls - before.received_calls)
            })
        });
        let (latency, sent) = left.run(move || {
            pin(0);
            let mut into = Received::new(32, a.slot());
            let latency = p50(|| {
                one(&mut *a, &there);
                look(&mut *a, &mut into);
            });
            let bytes = vec![3; 40 * FRAME];
            let lengths = [FRAME as u16; 40];
            let (end, before) = (Instant::now() + TIME, a.counters().sent);
            while Instant::now() < end {
                a.send(&there, Frames::new(&bytes, &lengths).unwrap()).unwrap();
            }
            (latency, a.counters().sent - before)
        });
        let gbit = |frames: u64| frames as f64 * FRAME as f64 * 8.0 / 1e9;
        let (received, calls) = echo.join().unwrap();
        [latency, gbit(sent), gbit(received), received as f64 / calls as f64]
    })
}

/// A ping-pong that looks, of plain sockets.
fn of_sockets(left: &Node, right: &Node) -> f64 {
    let open = |node: &Node, at: &'static str, to: &'static str| {
        node.run(move || {
            let socket = UdpSocket::bind(at).unwrap();
            socket.connect(to).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
    };
    let (a, b) = (open(left, "10.1.0.1:9", "10.1.0.2:9"), open(right, "10.1.0.2:9", "10.1.0.1:9"));
    let wait = |socket: &UdpSocket| {
        let mut byte = [0];
        let end = Instant::now() + Duration::from_secs(2);
        while socket.recv(&mut byte).is_err() && Instant::now() < end {}
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            right.run(move || {
                pin(1);
                for _ in 0..ROUNDS {
                    wait(&b);
                    b.send(&[1]).unwrap();
                }
            })
        });
        left.run(move || {
            pin(0);
            p50(|| {
                a.send(&[1]).unwrap();
                wait(&a);
            })
        })
    })
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    if !nodes_are_possible("measure") {
        return;
    }
    let (left, right) = (Node::new(), Node::new());
    left.join("left", &right, "right", 1);
    let plain = of_sockets(&left, &right);
    println!("plain UDP sockets: one way p50 {plain:.2} us");
    let udp = |node: &Node, at: &str, offload| -> Box<dyn Route> {
        let at = at.parse().unwrap();
        node.run(move || Box::new(Udp::open(at, Options { offload, ..Options::default() }).unwrap()))
    };
    let eth = |node: &Node, name: &'static str, xdp| -> Box<dyn Route> {
        node.run(move || Box::new(Eth::open(name, xdp).unwrap()))
    };
    let all = [
        ("udp", udp(&left, "10.1.0.1:7411", true), udp(&right, "10.1.0.2:7411", true)),
        ("udp without offload", udp(&left, "10.1.0.1:7412", false), udp(&right, "10.1.0.2:7412", false)),
        ("eth", eth(&left, "left", Xdp::Never), eth(&right, "right", Xdp::Never)),
    ];
    // Begun when the others are over, since the program is in their way.
    let xdp = || ("eth, AF_XDP", eth(&left, "left", Xdp::Always), eth(&right, "right", Xdp::Always));
    for (name, a, b) in all.into_iter().chain(std::iter::once_with(xdp)) {
        let [latency, sent, received, per_call] = of_route(&left, &right, a, b);
        println!(
            "{name}: one way p50 {latency:.2} us, {:.2}x; frames of {FRAME} B: {sent:.1} Gbit/s sent, {received:.1} received ({per_call:.1} a call)",
            latency / plain
        );
    }
}
