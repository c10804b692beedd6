//! Programs at both ends of a cable.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use dp_node::InProcess;
use dpfd::{Addr, Endpoint, Parts};

use crate::kit::{open, stay_on, until, Child, Node};

pub const ECHO: u16 = 7000;
pub const SINK: u16 = 7001;
/// How long whoever looks does before it sleeps.
const LOOK: Duration = Duration::from_millis(2);
/// The longest piece that one call sends of a stream.
const PIECE: usize = 64 << 10;

pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Microseconds of half a round trip, the median of so many.
pub fn one_way(rounds: usize, mut turn: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        turn();
        start.elapsed().as_secs_f64() * 5e5
    };
    median((0..rounds).map(time).collect())
}

/// Receives without sleeping for long, or as the library does.
pub fn recv(e: &Endpoint, looks: bool, into: &mut [u8]) -> (usize, Addr) {
    if looks {
        e.set_spin(LOOK.as_nanos() as u32);
    }
    e.recv_from(into).expect("a message")
}

/// Where the gateways of both nodes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gateways {
    /// Processes of their own.
    Outside,
    /// In the programs.
    Inside,
}

impl Gateways {
    /// That of this process, if it is to have one.
    pub fn start(self, node: &Node) -> Option<InProcess> {
        (self == Gateways::Inside).then(|| node.inside())
    }

    /// An endpoint whose receives sleep at once where they are not to look: with a gateway of its own, looking would be its part.
    pub fn open(self, dpid: u16, looks: bool) -> Endpoint {
        let e = open(dpid);
        if self == Gateways::Inside && !looks {
            e.set_spin(0);
        }
        e
    }

    /// What stands before a row's name.
    pub fn word(self) -> &'static str {
        match self {
            Gateways::Outside => "",
            Gateways::Inside => "gateways in the programs, ",
        }
    }
}

/// Node 2's programs: one that answers each byte, one that takes what comes; the same by sockets.
pub fn servers(node: &Node, looks: bool, cpu: Option<usize>) -> Vec<Child> {
    servers_with(Gateways::Outside, node, looks, cpu)
}

pub fn servers_with(gateways: Gateways, node: &Node, looks: bool, cpu: Option<usize>) -> Vec<Child> {
    let endpoints = node.run(|| {
        stay_on(cpu);
        let _gateway = gateways.start(node);
        let (echo, sink) = (gateways.open(ECHO, looks), gateways.open(SINK, looks));
        let thread = std::thread::spawn(move || take(&sink));
        let mut byte = [0; 1];
        while !thread.is_finished() {
            let (n, to) = recv(&echo, looks, &mut byte);
            echo.send_to(&byte[..n], to).expect("room");
        }
        false
    });
    let sockets = node.run(|| {
        stay_on(cpu);
        let nid = node.nid;
        let udp = UdpSocket::bind(format!("10.1.0.{nid}:9000")).expect("a socket");
        let tcp = TcpListener::bind(format!("10.1.0.{nid}:9001")).expect("a socket");
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let stream = stream.expect("a connection");
                std::thread::spawn(move || drain(stream));
            }
        });
        let mut byte = [0; 1];
        loop {
            let (_, to) =
                if looks { look(&udp, &mut byte) } else { udp.recv_from(&mut byte).expect("a byte") };
            udp.send_to(&byte, to).expect("the other side");
        }
    });
    vec![endpoints, sockets]
}

/// The same by a socket: it looks as long as an endpoint does here, and then sleeps. When it is not its turn it is in nobody's
/// way.
fn look(udp: &UdpSocket, into: &mut [u8]) -> (usize, std::net::SocketAddr) {
    udp.set_nonblocking(true).expect("a flag");
    let start = Instant::now();
    while start.elapsed() < LOOK {
        if let Ok(got) = udp.recv_from(into) {
            return got;
        }
    }
    udp.set_nonblocking(false).expect("a flag");
    udp.recv_from(into).expect("a byte")
}

/// A message of nothing ends a flood: it is answered with how many bytes came since the last one from there; one of two bytes
/// asks the same of the endpoint there that they name.
fn take(sink: &Endpoint) {
    let mut bytes = std::collections::HashMap::<Addr, u64>::new();
    loop {
        let message = sink.recv().expect("a message");
        let from = message.from();
        let of = match message.len() {
            0 => Some(from),
            2 => Some(Addr { dpid: u16::from_ne_bytes(message.to_vec().try_into().expect("two")), ..from }),
            _ => None,
        };
        if let Some(of) = of {
            drop(message);
            let sum = bytes.remove(&of).unwrap_or(0);
            sink.send_to(&sum.to_ne_bytes(), from).expect("room");
        } else {
            *bytes.entry(from).or_default() += message.len() as u64;
        }
    }
}

/// A flood ends with a byte of its own.
fn drain(mut stream: TcpStream) {
    let (mut buf, mut bytes) = (vec![0; 4 * PIECE], 0u64);
    while let Ok(n @ 1..) = stream.read(&mut buf) {
        bytes += n as u64;
        if buf[n - 1] == 1 && stream.write_all(&std::mem::take(&mut bytes).to_ne_bytes()).is_err() {
            return;
        }
    }
}

/// MB/s of messages of this length to a sink, for so long.
pub fn flood(e: &Endpoint, to: Addr, len: usize, time: Duration) -> f64 {
    let message = vec![0; len];
    let start = Instant::now();
    while start.elapsed() < time {
        // The clock costs as much as a short message.
        (0..if len < 4096 { 64 } else { 1 }).for_each(|_| e.send_to(&message, to).expect("room"));
    }
    e.send_to(b"", to).expect("room");
    let sum = e.recv().expect("an answer").to_vec();
    let sum = u64::from_ne_bytes(sum.try_into().expect("a sum"));
    sum as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The same of messages that name these routes in turn.
pub fn flood_by(e: &Endpoint, to: Addr, routes: &[&str], len: usize, time: Duration) -> f64 {
    let message = vec![0; len];
    let pieces = [IoSlice::new(&message)];
    let start = Instant::now();
    for route in routes.iter().cycle().take_while(|_| start.elapsed() < time) {
        e.send_parts_to(Parts::new(&pieces).by_route(route), to).expect("room");
    }
    e.send_to(b"", to).expect("room");
    let sum = e.recv().expect("an answer").to_vec();
    let sum = u64::from_ne_bytes(sum.try_into().expect("a sum"));
    sum as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// MB/s of raw messages that came; `asks` is an endpoint whose question for them does.
pub fn flood_raw(raw: &Endpoint, asks: &Endpoint, to: Addr, len: usize, time: Duration) -> f64 {
    let message = vec![0; len];
    let start = Instant::now();
    while start.elapsed() < time {
        (0..64).for_each(|_| raw.send_to(&message, to).expect("room"));
    }
    asks.send_to(&raw.dpid().to_ne_bytes(), to).expect("room");
    let sum = asks.recv().expect("an answer").to_vec();
    let sum = u64::from_ne_bytes(sum.try_into().expect("a sum"));
    sum as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The same by a TCP connection, in pieces of this length.
pub fn flood_tcp(mut tcp: &TcpStream, len: usize, time: Duration) -> f64 {
    let piece = vec![0; len];
    let start = Instant::now();
    while start.elapsed() < time {
        tcp.write_all(&piece).expect("room");
    }
    let mut last = piece;
    last[len - 1] = 1;
    tcp.write_all(&last).expect("room");
    let mut sum = [0; 8];
    tcp.read_exact(&mut sum).expect("an answer");
    u64::from_ne_bytes(sum) as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// A byte to a node's sink, and the 8 of its answer.
pub fn ask_tcp(mut tcp: &TcpStream) {
    tcp.write_all(&[1]).expect("room");
    tcp.read_exact(&mut [0; 8]).expect("an answer");
}

/// A connection to a node's sink.
pub fn connect(nid: u16) -> TcpStream {
    let mut tcp = None;
    until("the server", || {
        tcp = TcpStream::connect(format!("10.1.0.{nid}:9001")).ok();
        tcp.is_some()
    });
    tcp.expect("connected")
}
