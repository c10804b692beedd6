//! Connections or endpoints that nobody uses, beside the one that is measured. Both processes hold one end of each; where
//! descriptors tell that something came, the second process waits for all of them at once, as servers do.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use dpfd::driver::Driver;
use dpfd::Endpoint;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{getrlimit, setrlimit, Resource};

use super::link::{again, Fds, Link};
use super::transport::Transport;
use super::Result;

/// Descriptors for everything else.
const SPARE: u64 = 256;
/// Of an endpoint.
const PER_ENDPOINT: u64 = 2;

/// One end of each.
pub enum Crowd {
    Tcp(Vec<TcpStream>),
    Unix(Vec<UnixStream>),
    Endpoints(Vec<Endpoint>),
}

/// Where the second process takes connections.
pub enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// Endpoints need none.
    None,
}

/// A name that nobody else has, of the first process.
fn name(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("dp-bench-{pid}-crowd"))
}

impl Door {
    /// Opens it, and tells its port.
    pub fn open(transport: Transport, first_pid: u32) -> Result<(Door, u16)> {
        Ok(match transport {
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                (Door::Tcp(listener), port)
            }
            Transport::UnixStream => (Door::Unix(UnixListener::bind_addr(&name(first_pid)?)?), 0),
            _ => (Door::None, 0),
        })
    }

    /// The second process's ends.
    pub fn take(self, count: usize) -> Result<Crowd> {
        room(count as u64)?;
        Ok(match self {
            Door::Tcp(door) => Crowd::Tcp(made(count, || Ok(door.accept()?.0))?),
            Door::Unix(door) => Crowd::Unix(made(count, || Ok(door.accept()?.0))?),
            Door::None => Crowd::endpoints(count)?,
        })
    }
}

impl Crowd {
    /// The first process's ends.
    pub fn connect(transport: Transport, port: u16, count: usize) -> Result<Crowd> {
        room(count as u64)?;
        Ok(match transport {
            Transport::Tcp => Crowd::Tcp(made(count, || Ok(TcpStream::connect(("127.0.0.1", port))?))?),
            Transport::UnixStream => {
                let name = name(std::process::id())?;
                Crowd::Unix(made(count, || Ok(UnixStream::connect_addr(&name)?))?)
            }
            _ => Crowd::endpoints(count)?,
        })
    }

    fn endpoints(count: usize) -> Result<Crowd> {
        Ok(Crowd::Endpoints(made(count, || Ok(Endpoint::open_on(Driver::User, 0)?))?))
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Crowd::Tcp(all) => all.iter().map(AsFd::as_fd).collect(),
            Crowd::Unix(all) => all.iter().map(AsFd::as_fd).collect(),
            Crowd::Endpoints(all) => all.iter().map(AsFd::as_fd).collect(),
        }
    }
}

fn made<T>(count: usize, mut one: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(count);
    for i in 0..count {
        all.push(one().map_err(|e| format!("number {} of {count}: {e}", i + 1))?);
    }
    Ok(all)
}

/// How many endpoints a process can have.
pub fn endpoints_here() -> Result<usize> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok((hard.saturating_sub(SPARE) / PER_ENDPOINT) as usize)
}

/// Lets this process have so many descriptors.
fn room(count: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if count + SPARE > hard {
        return Err(format!(
            "{count} connections take as many descriptors, and the hard limit is {hard}; raise it (ulimit -Hn), or ask \
             for fewer"
        )
        .into());
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}

/// An end that is waited for together with all the others.
pub struct Watched {
    link: Fds,
    epoll: Epoll,
    _crowd: Crowd,
}

impl Watched {
    pub fn new(link: Fds, crowd: Crowd) -> Result<Watched> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(link.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        for fd in crowd.fds() {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        }
        Ok(Watched { link, epoll, _crowd: crowd })
    }
}

impl Link for Watched {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.link.send(message)
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // Nobody sends on the others, so the first that is ready is this one.
        let mut events = [EpollEvent::empty()];
        while again(|| self.epoll.wait(&mut events, EpollTimeout::NONE))? == 0 {}
        match events[0].data() {
            0 => self.link.recv(into),
            _ => Err(io::Error::other("something came where nobody sends")),
        }
    }
}
