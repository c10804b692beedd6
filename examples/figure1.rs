//! The graph of Figure 1 of the Directed Point paper: four processes, five edges, a message along each.
//!
//!     cargo run -p dpfd --example figure1
//!
//! ```text
//!     node 1   P1 {1 2 3}   P2 {5 6}          2,1 -> 2,2     P1 to P3      (endpoint,node)
//!     node 2   P3 {1 2 7 8}                   1,2 -> 3,1     P3 to P1
//!     node 3   P4 {3}                         1,1 -> 5,1     P1 to P2
//!                                             8,2 -> 3,3     P3 to P4
//!                                             6,1 -> 1,1     P2 to P1
//! ```
//!
//! The program starts itself again as each of the processes, which opens its endpoints, sends along its outgoing edges
//! and waits for what its incoming ones bring. All run on this one node: the paper's endpoint 2,1 is number 4102 here.

use std::env;
use std::error::Error;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use dpfd::{Addr, Endpoint};

/// An endpoint as the paper writes it: its number, and its node's.
type Vertex = (u16, u16);

const PROCESSES: [&[Vertex]; 4] =
    [&[(1, 1), (2, 1), (3, 1)], &[(5, 1), (6, 1)], &[(1, 2), (2, 2), (7, 2), (8, 2)], &[(3, 3)]];

const EDGES: [(Vertex, Vertex); 5] =
    [((2, 1), (2, 2)), ((1, 2), (3, 1)), ((1, 1), (5, 1)), ((8, 2), (3, 3)), ((6, 1), (1, 1))];

fn addr((dpid, nid): Vertex) -> Addr {
    Addr::local(4000 + 100 * nid + dpid)
}

fn message(from: Vertex, to: Vertex) -> String {
    format!("<{},{}> -> <{},{}>", from.0, from.1, to.0, to.1)
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(role) = env::args().nth(1) {
        let i: usize = role.parse()?;
        return process(i, PROCESSES.get(i.wrapping_sub(1)).ok_or("there are processes 1 to 4")?);
    }
    let program = env::current_exe()?;
    let start = |i: usize| Command::new(&program).arg(i.to_string()).spawn();
    let started: Result<Vec<_>, _> = (1..=PROCESSES.len()).map(start).collect();
    for mut child in started? {
        if !child.wait()?.success() {
            return Err("a process did not get what its edges bring".into());
        }
    }
    Ok(())
}

fn process(i: usize, vertices: &[Vertex]) -> Result<(), Box<dyn Error>> {
    let mut endpoints = Vec::new();
    for vertex in vertices {
        endpoints.push((*vertex, Endpoint::open(addr(*vertex).dpid)?));
    }
    for (vertex, endpoint) in &endpoints {
        for (from, to) in EDGES.iter().filter(|(from, _)| from == vertex) {
            endpoint.send_to(message(*from, *to).as_bytes(), addr(*to))?;
        }
    }
    for (vertex, endpoint) in &endpoints {
        // No endpoint of this graph has two incoming edges; else they could bring their messages in any order.
        for (from, to) in EDGES.iter().filter(|(_, to)| to == vertex) {
            let got = endpoint.recv()?;
            let text = String::from_utf8(got.to_vec())?;
            if got.from() != addr(*from) || text != message(*from, *to) {
                return Err(format!("P{i}: {text:?} from {} on {}", got.from(), message(*from, *to)).into());
            }
            println!("P{i} got {text}");
        }
    }
    // What a process has sent is given 2 seconds when it exits; the others may take longer to start.
    for (vertex, endpoint) in &endpoints {
        let sent = EDGES.iter().filter(|(from, _)| from == vertex).count() as u64;
        while endpoint.stat().sent.0 < sent {
            sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}
