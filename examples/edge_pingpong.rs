//! Two processes and two edges: messages there and back without a system call.
//!
//!     cargo run --release -p dpfd --example edge_pingpong [ROUNDS]
//!
//! The first process makes both edges and starts itself again, with their memory as the second process's
//! standard input and output. Both look at their edge without sleeping, so each wants a core for itself.

use std::env;
use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use dp_edge::message::{self, Head};
use dp_edge::ring::Tail;
use dp_edge::segment::Segment;

/// Set for the second process.
const PEER: &str = "EDGE_PINGPONG_PEER";

/// What this process sends on, and what it receives from.
struct Ends {
    to: Segment,
    tail: Tail,
    from: Segment,
    head: Head,
}

impl Ends {
    fn new(to: Segment, from: Segment) -> Ends {
        // "I look by myself": without this every message would owe a bell (dp_edge::bell).
        from.word().make_hot();
        Ends { to, tail: Tail::default(), from, head: Head::default() }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), dp_edge::Error> {
        message::send_bytes(&self.to.lines(), &mut self.tail, &self.to.rx().cursor, message)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, dp_edge::Error> {
        loop {
            match self.head.recv_bytes(&self.from.lines(), &self.from.rx().cursor, into) {
                Err(dp_edge::Error::Empty) => std::hint::spin_loop(),
                done => return done,
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if env::var_os(PEER).is_some() {
        return answer();
    }
    let rounds: u32 = env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse())?;
    let ((there, to), (back, from)) = (Segment::create(64 * 1024)?, Segment::create(64 * 1024)?);
    let mut peer = Command::new(env::current_exe()?)
        .env(PEER, "1")
        .stdin(Stdio::from(to))
        .stdout(Stdio::from(from))
        .spawn()?;
    let mut ends = Ends::new(there, back);
    let mut answer = [0; 64];
    let start = Instant::now();
    for i in 0..rounds {
        ends.send(format!("ping {i}").as_bytes())?;
        let n = ends.receive(&mut answer)?;
        assert_eq!(&answer[..n], format!("pong {i}").as_bytes());
    }
    let each = start.elapsed() / rounds.max(1);
    ends.send(b"")?;
    peer.wait()?;
    println!("{rounds} round trips, {each:?} each");
    Ok(())
}

/// The second process: a pong for each ping, until an empty message.
fn answer() -> Result<(), Box<dyn Error>> {
    // A process that only looks at memory does not notice that the other is gone.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::SIGKILL)?;
    let open = |fd: std::os::fd::BorrowedFd<'_>| Segment::open(fd.try_clone_to_owned()?);
    let mut ends = Ends::new(open(io::stdout().as_fd())?, open(io::stdin().as_fd())?);
    let mut message = [0; 64];
    loop {
        let n = ends.receive(&mut message)?;
        if n == 0 {
            return Ok(());
        }
        message[1] = b'o';
        ends.send(&message[..n])?;
    }
}
