//! Futures that wait, in tokio's runtime.
//!
//! Receiving waits for the descriptor to be readable, which it is if and only if a message is there. Sending
//! waits for it to be writable, and, with the user-space driver, for news of the service where the descriptor does
//! not tell ([`crate::driver::user::wakers`]).

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::Poll;

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::coop::consume_budget;

use super::super::Endpoint;
use crate::addr::Addr;
use crate::driver::kernel::KernelEndpoint;
use crate::driver::user::endpoint::UserEndpoint;
use crate::driver::user::sending::Sending;
use crate::driver::user::wakers::Until;
use crate::driver::Served;
use crate::edge::parts::{Parts, MOST_PIECES};
use crate::error::{Error, Result};

type Registered = AsyncFd<Endpoint>;

/// Looks until a look finds something, and waits in between.
pub async fn receive<'a, T>(
    fd: &'a Registered,
    mut look: impl FnMut(&'a Endpoint) -> Result<Option<T>>,
) -> Result<T> {
    consume_budget().await;
    let endpoint = fd.get_ref();
    if let Some(got) = look(endpoint)? {
        return Ok(got);
    }
    loop {
        let mut readable = fd.readable().await.map_err(Error::io("epoll_wait"))?;
        if let Some(got) = look(endpoint)? {
            return Ok(got);
        }
        // A look in vain leaves the descriptor unreadable, so the next message is an edge.
        readable.clear_ready();
    }
}

/// Sends a message, to the target or elsewhere.
pub async fn send(fd: &Registered, to: Option<Addr>, message: Parts<'_>) -> Result<()> {
    let (count, limit) = (message.pieces().len(), MOST_PIECES);
    if count > limit {
        return Err(Error::TooManyPieces { count, limit });
    }
    if let Some(name) = message.route() {
        fd.get_ref().served.permit_route(name)?;
    }
    consume_budget().await;
    match &fd.get_ref().served {
        Served::User(inner) => send_by_library(fd, inner, to, message).await,
        Served::Kernel(inner) => send_by_kernel(fd, inner, to, message).await,
    }
}

/// The descriptor tells of room for what was refused, whoever was refused on it last.
async fn send_by_kernel(
    registered: &Registered,
    inner: &KernelEndpoint,
    to: Option<Addr>,
    message: Parts<'_>,
) -> Result<()> {
    let fd = registered.get_ref().own_fd()?;
    // The target of the moment in which it is first tried.
    let mut to = to;
    let mut writable = None;
    loop {
        let sent = match (message.pieces(), message.immediate()) {
            ([piece], None) => inner.send(fd, to, piece, false),
            _ => inner.send_parts(fd, to, &message, false),
        };
        match sent {
            Err(Error::WouldBlock) => {}
            Err(Error::Interrupted) => continue,
            done => return done,
        }
        if to.is_none() {
            to = Some(inner.stat(fd).target);
        }
        if let Some(mut writable) = writable.take() {
            AsyncFdReadyGuard::clear_ready(&mut writable);
        }
        writable = Some(registered.writable().await.map_err(Error::io("epoll_wait"))?);
    }
}

async fn send_by_library(
    registered: &Registered,
    inner: &UserEndpoint,
    to: Option<Addr>,
    message: Parts<'_>,
) -> Result<()> {
    let fd = registered.get_ref().own_fd()?;
    let mut sending = Sending::new(inner, to, message);
    let mut stuck = sending.attempt(fd)?;
    while let Some(until) = stuck {
        let writable = news(registered, &mut sending, until).await?;
        stuck = sending.attempt(fd)?;
        if let (Some(mut writable), true) = (writable, stuck.is_some_and(Until::is_polled)) {
            writable.clear_ready();
        }
    }
    Ok(())
}

/// Waits until a message that is stuck may be tried again; with what the descriptor said, if it was that.
async fn news<'a>(
    fd: &'a Registered,
    sending: &mut Sending<'_>,
    until: Until,
) -> Result<Option<AsyncFdReadyGuard<'a, Endpoint>>> {
    let mut writable = pin!(fd.writable());
    poll_fn(|cx| {
        if sending.poll_news(until, cx).is_ready() {
            return Poll::Ready(Ok(None));
        }
        if !until.is_polled() {
            return Poll::Pending;
        }
        writable.as_mut().poll(cx).map(|r| r.map(Some).map_err(Error::io("epoll_wait")))
    })
    .await
}
