//! One process serves 100 endpoints with epoll(7), nix's; another asks each of them ten times.
//!
//!     cargo run -p dpfd --example epoll100
//!
//! The process starts itself again as the server.

use std::env;
use std::error::Error;
use std::process::Command;

use dpfd::{Addr, Endpoint};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

const FIRST: u16 = 3300;
const ENDPOINTS: u16 = 100;
const ROUNDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let mut server = Command::new(env::current_exe()?).arg("serve").spawn()?;
    let endpoint = Endpoint::open(0)?; // any number will do
    let mut answers = 0;
    for _ in 0..ROUNDS {
        for i in 0..ENDPOINTS {
            // Those that are not open yet are waited for.
            endpoint.send_to(&i.to_ne_bytes(), Addr::local(FIRST + i))?;
        }
        for _ in 0..ENDPOINTS {
            let answer = endpoint.recv()?;
            let mut i = [0; 2];
            answer.copy_to(&mut i);
            assert_eq!(answer.from(), Addr::local(FIRST + u16::from_ne_bytes(i)));
            answers += 1;
        }
    }
    println!("{ENDPOINTS} endpoints, {answers} answers");
    if !server.wait()?.success() {
        return Err("the server failed".into());
    }
    Ok(())
}

fn serve() -> Result<(), Box<dyn Error>> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut endpoints = Vec::new();
    for i in 0..ENDPOINTS {
        let endpoint = Endpoint::open(FIRST + i)?;
        endpoint.set_nonblocking(true)?;
        epoll.add(&endpoint, EpollEvent::new(EpollFlags::EPOLLIN, i.into()))?;
        endpoints.push(endpoint);
    }
    let mut left = usize::from(ENDPOINTS) * ROUNDS;
    let mut events = [EpollEvent::empty(); 16];
    while left > 0 {
        let n = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..n] {
            left -= answer(&endpoints[event.data() as usize])?;
        }
    }
    Ok(())
}

/// Answers whatever is there; back to epoll when nothing is.
fn answer(endpoint: &Endpoint) -> dpfd::Result<usize> {
    let mut answers = 0;
    loop {
        match endpoint.recv() {
            Ok(asked) => endpoint.send_to(&asked.to_vec(), asked.from())?,
            Err(dpfd::Error::WouldBlock) => return Ok(answers),
            Err(e) => return Err(e),
        }
        answers += 1;
    }
}
