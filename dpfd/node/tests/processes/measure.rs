//! What a message between two nodes takes, beside a plain UDP and a TCP socket on the same veth pair, in turns. Ignored, as
//! nothing in it can fail:
//! `cargo test --release -p dp-node --test processes -- --ignored --nocapture measure`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use dpfd::{Addr, Endpoint};

use crate::kit::{namespaces_are_possible, open, trusted, until, Child, Network, Node};

const ROUNDS: usize = 2000;
const TURNS: usize = 7;
const LONG: usize = 64 << 10;
const FLOOD: Duration = Duration::from_millis(500);
const ECHO: u16 = 7000;
const SINK: u16 = 7001;

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Microseconds of half a round trip, the median.
fn one_way(mut turn: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        turn();
        start.elapsed().as_secs_f64() * 5e5
    };
    median((0..ROUNDS).map(time).collect())
}

/// MB/s of what `send` sends and `done` waits for.
fn flood(mut send: impl FnMut(), done: impl FnOnce()) -> f64 {
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < FLOOD {
        send();
        n += 1;
    }
    done();
    (n * LONG) as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Receives without sleeping, or as the library does.
fn recv(e: &Endpoint, looks: bool, into: &mut [u8]) -> (usize, Addr) {
    if looks {
        e.set_spin(1_000_000_000);
    }
    e.recv_from(into).expect("a message")
}

/// Answers one byte with one byte; acknowledges the message of nothing that ends a flood.
fn serve_endpoints(looks: bool) -> bool {
    let (echo, sink) = (open(ECHO), open(SINK));
    let thread = std::thread::spawn(move || loop {
        let message = sink.recv().expect("a message");
        if message.is_empty() {
            let to = message.from();
            drop(message);
            sink.send_to(b"x", to).expect("room");
        }
    });
    let mut byte = [0; 1];
    while !thread.is_finished() {
        let (n, to) = recv(&echo, looks, &mut byte);
        echo.send_to(&byte[..n], to).expect("room");
    }
    false
}

fn serve_sockets(looks: bool) -> bool {
    let udp = UdpSocket::bind("10.1.0.2:9000").expect("a socket");
    udp.set_nonblocking(looks).expect("a flag");
    let tcp = TcpListener::bind("10.1.0.2:9001").expect("a socket");
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.expect("a connection");
            let mut buf = vec![0; LONG];
            while let Ok(n @ 1..) = stream.read(&mut buf) {
                // A flood ends with a byte of its own.
                if buf[n - 1] == 1 {
                    stream.write_all(b"x").expect("the other side");
                }
            }
        }
    });
    let mut byte = [0; 1];
    loop {
        if let Ok((_, to)) = udp.recv_from(&mut byte) {
            udp.send_to(&byte, to).expect("the other side");
        }
    }
}

fn measure(looks: bool, routes: &str) {
    let (left, right) = (Network::new(), Network::new());
    left.cable("dp0", &right, "dp0");
    for (n, network) in [(1, &left), (2, &right)] {
        network.ip(&format!("link set dp0 address 02:00:00:00:00:0{n}"));
        network.ip(&format!("addr add 10.1.0.{n}/24 dev dp0"));
        network.ip("link set dp0 up");
    }
    left.up("dp0");
    let node = |n: u16| format!("[[node]]\nnid = {n}\nroutes = [{}]\n", routes.replace('N', &n.to_string()));
    let graph = trusted(routes) + &node(1) + &node(2);
    let nodes = [Node::new(1, &graph, Some(&left)), Node::new(2, &graph, Some(&right))];
    let spin = Duration::from_micros(if looks { 200 } else { 0 });
    let gateways: Vec<Child> = nodes.iter().map(|node| node.gateway_that_spins(spin)).collect();
    let servers = [nodes[1].run(|| serve_endpoints(looks)), nodes[1].run(|| serve_sockets(looks))];
    nodes[0]
        .run(|| {
            let there = |dpid| Addr { nid: 2, dpid };
            let (e, f) = (open(0), open(0));
            let udp = UdpSocket::bind("10.1.0.1:0").expect("a socket");
            udp.connect("10.1.0.2:9000").expect("a route");
            let mut tcp = None;
            until("the server", || {
                tcp = TcpStream::connect("10.1.0.2:9001").ok();
                tcp.is_some()
            });
            let tcp = tcp.expect("connected");
            udp.set_nonblocking(looks).expect("a flag");
            let mut byte = [0; 1];
            let long = vec![0; LONG];
            let mut results: [Vec<f64>; 4] = Default::default();
            for _ in 0..TURNS {
                results[0].push(one_way(|| {
                    e.send_to(b"x", there(ECHO)).expect("room");
                    recv(&e, looks, &mut byte);
                }));
                results[1].push(one_way(|| {
                    udp.send(b"x").expect("room");
                    while udp.recv(&mut byte).is_err() {}
                }));
                results[2].push(flood(
                    || f.send_to(&long, there(SINK)).expect("room"),
                    || {
                        f.send_to(b"", there(SINK)).expect("room");
                        f.recv().expect("an answer");
                    },
                ));
                let mut last = long.clone();
                last[LONG - 1] = 1;
                results[3].push(flood(
                    || (&tcp).write_all(&long).expect("room"),
                    || {
                        (&tcp).write_all(&last).expect("room");
                        (&tcp).read_exact(&mut byte).expect("an answer");
                    },
                ));
            }
            let [dp, udp_, dp_long, tcp_long] = results.map(median);
            let how = if looks { "looking" } else { "asleep" };
            println!(
                "{routes}, {how}: 1 B one way {dp:.1} us, UDP {udp_:.1} us, {:.2}x; 64 KiB {dp_long:.0} MB/s, TCP \
                 {tcp_long:.0} MB/s, {:.2}x",
                dp / udp_,
                dp_long / tcp_long
            );
            true
        })
        .ok();
    servers.into_iter().chain(gateways).for_each(Child::kill);
}

#[test]
#[ignore = "nothing in it can fail"]
fn a_message_beside_plain_sockets() {
    if !namespaces_are_possible("measure") {
        return;
    }
    for routes in ["\"udp:10.1.0.N:7411\"", "\"eth:dp0/02:00:00:00:00:0N\""] {
        measure(true, routes);
        measure(false, routes);
    }
}
