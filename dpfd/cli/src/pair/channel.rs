//! A channel of the shim: a TCP connection between the two processes, written and read as any program does it.
//!
//! This program runs with the shim in it then, and only connections to an address of their own become channels: what is
//! measured beside them over TCP stays there.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use dp_channel::tcp;
use nix::unistd::{read, write};

use super::helper::alive;
use super::link::{again, Link};
use super::transport::Transport;
use super::Result;
use crate::shim;

/// Connections to it become channels.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How long the second process may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the two ends exchange messages until they have a channel: some calls, where a processor is free for both.
const INTRODUCTION: Duration = Duration::from_secs(3);
/// The length of these messages, bytes.
const GREETING: usize = 64;
/// The first byte of one that is answered and followed by another one, and of the last.
const MORE: u8 = 0;
const LAST: u8 = 1;

/// These, without a channel where there is no shim.
pub fn where_possible(transports: &[Transport]) -> Vec<Transport> {
    let shim = shim::find().is_ok();
    transports.iter().copied().filter(|&transport| transport != Transport::Channel || shim).collect()
}

/// Makes sure that the shim is in this program, if a channel is among what is measured: begins again with it where it is not.
pub fn with_shim(transports: &[Transport]) -> std::result::Result<(), String> {
    if !transports.contains(&Transport::Channel) {
        return Ok(());
    }
    let preload = shim::find().and_then(|shim| shim::preload(&shim, env::var_os("LD_PRELOAD")));
    let preload = preload.map_err(|e| format!("{}: {e}", Transport::Channel))?;
    let rules = format!("channel any {ADDRESS}");
    if env::var_os("LD_PRELOAD").as_ref() == Some(&preload) && env::var("DP_RULES").as_ref() == Ok(&rules) {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    Err(again.args(arguments).env("LD_PRELOAD", preload).env("DP_RULES", rules).exec().to_string())
}

/// One end of a connection.
pub struct Channel {
    socket: OwnedFd,
    /// Without it, nobody would introduce the two processes.
    _listener: Option<TcpListener>,
    sent: Count,
    received: Count,
}

/// Calls and the bytes they moved.
#[derive(Default)]
struct Count {
    calls: u64,
    bytes: u64,
}

impl Channel {
    /// The end of the process that connects, which is the first, or of the one that listens.
    pub fn new(pair: u16, first: bool) -> io::Result<Channel> {
        let (socket, listener) = if first {
            (TcpStream::connect((ADDRESS, told(pair)?))?, None)
        } else {
            let listener = TcpListener::bind((ADDRESS, 0))?;
            tell(pair, listener.local_addr()?.port())?;
            (listener.accept()?.0, Some(listener))
        };
        socket.set_nodelay(true)?;
        let [sent, received] = [Count::default(), Count::default()];
        let mut channel = Channel { socket: socket.into(), _listener: listener, sent, received };
        if first {
            channel.greets()?;
        } else {
            while channel.hears()? != LAST {
                channel.send(&[MORE; GREETING])?;
            }
        }
        Ok(channel)
    }

    /// Connections begin on TCP, and the shim introduces the ends to each other in their first calls. On a busy machine that may
    /// take as long as a short measurement, so it is awaited; whether it has come to anything, [`Channel::is_one`] says.
    fn greets(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while !self.both_ways() && begin.elapsed() < INTRODUCTION {
            self.send(&[MORE; GREETING])?;
            self.hears()?;
        }
        self.send(&[LAST; GREETING])
    }

    /// The first byte of a message.
    fn hears(&mut self) -> io::Result<u8> {
        let mut message = [0; GREETING];
        let mut at = 0;
        while at < GREETING {
            at += self.recv(&mut message[at..])?;
        }
        Ok(message[0])
    }

    /// Whether some bytes of either direction, seen from the end that connects, were not on TCP.
    fn both_ways(&self) -> bool {
        let fd = self.socket.as_raw_fd();
        tcp::written(fd, true).is_some_and(|written| written.bytes < self.sent.bytes)
            && tcp::consumed(fd).is_some_and(|n| n < self.received.bytes)
    }

    /// An error if all bytes went over TCP: that would be another measurement. Some always do, those of a stream whose
    /// receiver does not keep up among them; and a bell is a byte there.
    pub fn is_one(&self) -> Result<()> {
        let fd = self.socket.as_raw_fd();
        let on_tcp = |count: &Count, tcp: Option<u64>| count.bytes > count.calls && tcp >= Some(count.bytes);
        let client = self._listener.is_none();
        if on_tcp(&self.sent, tcp::written(fd, client).map(|written| written.bytes))
            || on_tcp(&self.received, tcp::consumed(fd))
        {
            return Err("the connection stayed on TCP; `dp doctor` looks for the reason".into());
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link for Channel {
    #[inline(always)]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            let n = again(|| write(&self.socket, message))?;
            self.sent.calls += 1;
            self.sent.bytes += n as u64;
            message = &message[n..];
        }
        Ok(())
    }

    #[inline(always)]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match again(|| read(&self.socket, into))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.received.calls += 1;
                self.received.bytes += n as u64;
                Ok(n)
            }
        }
    }
}

/// Where the port of a pair is told: in the folder that both processes have for the endpoints.
fn place(pair: u16) -> PathBuf {
    PathBuf::from(env::var_os("DP_RUNTIME_DIR").unwrap_or_default()).join(format!("port-{pair}"))
}

fn tell(pair: u16, port: u16) -> io::Result<()> {
    let place = place(pair);
    let new = place.with_extension("new");
    if let Some(folder) = place.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::write(&new, port.to_string())?;
    fs::rename(new, place)
}

fn told(pair: u16) -> io::Result<u16> {
    let (place, begin) = (place(pair), Instant::now());
    loop {
        match fs::read_to_string(&place) {
            Ok(port) => {
                fs::remove_file(place)?;
                return port.parse().map_err(io::Error::other);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && begin.elapsed() < PATIENCE => {
                alive()?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => return Err(e),
        }
    }
}
