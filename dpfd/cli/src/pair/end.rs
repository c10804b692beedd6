//! One end of a way of sending, whichever it is.

use std::io;
use std::os::fd::OwnedFd;

use dpfd::{Dpid, Endpoint};
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::endpoints::{self, OneEnd};
use super::floor::Floor;
use super::futex::Futex;
use super::link::{Fds, Link, Spinning};
use super::queues::Queues;
use super::transport::Transport;
use super::Result;

/// One end.
pub enum End {
    Floor(Floor),
    Endpoint(OneEnd),
    Channel(Channel),
    Fds(Fds),
    Other(Box<dyn Link>),
}

/// Which end it is.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub enum Role {
    /// One of the two of a pair, of which the first connects; endpoints get a pool of so many bytes, or nobody gives them one.
    OneOfTwo { pair: u16, first: bool, pool: Option<usize> },
    /// One of several endpoints that send to one.
    Spoke { mine: Dpid, hub: Dpid },
    /// The one endpoint that so many send to.
    Hub { number: Dpid, senders: usize },
}

impl End {
    /// From its descriptors, or the numbers of endpoints to open.
    pub fn new(transport: Transport, role: Role, fds: Vec<OwnedFd>) -> Result<End> {
        let (pair, first, pool) = match role {
            Role::OneOfTwo { pair, first, pool } => (pair, first, pool),
            Role::Spoke { mine, hub } => {
                return Ok(End::Endpoint(OneEnd::spoke(transport, &fds, mine, hub)?))
            }
            Role::Hub { number, senders } => {
                return Ok(End::Endpoint(OneEnd::hub(transport, &fds, number, senders)?))
            }
        };
        Ok(match transport {
            Transport::Floor => End::Floor(Floor::new(these(fds)?, first)?),
            Transport::Endpoint
            | Transport::EndpointInPlace
            | Transport::EndpointAsleep
            | Transport::EndpointDefault
            | Transport::Kernel
            | Transport::Ethernet => End::Endpoint(OneEnd::new(transport, &fds, pair, pool, first)?),
            Transport::Route => return Err("its ends are on two nodes".into()),
            Transport::Plain | Transport::KernelPlain => End::Fds(endpoints::plain(transport, pair, first)?),
            Transport::Channel => End::Channel(Channel::new(pair, first)?),
            Transport::TcpSpin => End::Other(Box::new(Spinning::new(these(fds)?)?)),
            Transport::Mqueue => End::Other(Box::new(Queues::new(these(fds)?))),
            Transport::Futex => End::Other(Box::new(Futex::new(these(fds)?, first)?)),
            Transport::UnixDgram
            | Transport::UnixSeqpacket
            | Transport::UnixStream
            | Transport::Tcp
            | Transport::Pipe
            | Transport::Eventfd => End::Fds(Fds::new(these(fds)?)),
        })
    }

    /// An error if this is not what was to be measured.
    pub fn check(&self) -> Result<()> {
        match self {
            End::Channel(channel) => channel.is_one(),
            End::Endpoint(end) => end.goes_by_its_route(),
            _ => Ok(()),
        }
    }

    /// The endpoint, if it is one.
    pub fn endpoint(&self) -> Result<&Endpoint> {
        Ok(&self.one()?.endpoint)
    }

    /// The same with what it is for.
    pub fn one(&self) -> Result<&OneEnd> {
        match self {
            End::Endpoint(end) => Ok(end),
            _ => Err("no endpoint".into()),
        }
    }
}

fn these<const N: usize>(fds: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    fds.try_into().map_err(|_| io::Error::other("another number of descriptors than that way has"))
}

/// Does the same to the link inside an end, whichever it is: one decision for many messages. The floor is no link.
macro_rules! each {
    ($end:expr, $link:ident => $do:expr) => {
        match $end {
            $crate::pair::end::End::Endpoint($link) => $do,
            $crate::pair::end::End::Channel($link) => $do,
            $crate::pair::end::End::Fds($link) => $do,
            $crate::pair::end::End::Other($link) => $do,
            $crate::pair::end::End::Floor(_) => {
                Err(std::io::Error::other("the floor carries no messages").into())
            }
        }
    };
}
pub(crate) use each;
