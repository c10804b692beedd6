//! A message that keeps its endpoint open: for a gateway, which has thousands of them, of many endpoints, until other nodes
//! have acknowledged them.

use core::fmt;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::Endpoint;
use crate::addr::Addr;
use crate::error::Result;
use crate::sys::loaned::Got;

/// As [`super::Message`], without borrowing its endpoint. Dropping it releases it.
pub struct Held {
    lender: Arc<Endpoint>,
    got: Got,
}

impl Held {
    /// The endpoint's next message, if one is there; whether the descriptor waits is not asked. Without one, the descriptor
    /// becomes readable when one comes.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    pub fn next(endpoint: &Arc<Endpoint>) -> Result<Option<Held>> {
        endpoint.own_fd()?;
        let got = endpoint.served.recv_now(endpoint.as_raw_fd())?;
        Ok(got.map(|got| Held { lender: endpoint.clone(), got }))
    }

    /// The same for one that looks again and again: the descriptor tells nothing of what comes, until [`Held::rest`].
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    pub fn look(endpoint: &Arc<Endpoint>) -> Result<Option<Held>> {
        endpoint.own_fd()?;
        let got = endpoint.served.recv_looking(endpoint.as_raw_fd())?;
        Ok(got.map(|got| Held { lender: endpoint.clone(), got }))
    }

    /// The same for one whose senders say themselves that they have sent something: the descriptor goes on telling of what others do.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    pub fn take(endpoint: &Arc<Endpoint>) -> Result<Option<Held>> {
        endpoint.own_fd()?;
        let got = endpoint.served.recv_aside(endpoint.as_raw_fd())?;
        Ok(got.map(|got| Held { lender: endpoint.clone(), got }))
    }

    /// The descriptor tells again. Whether a message is there.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    pub fn rest(endpoint: &Endpoint) -> Result<bool> {
        endpoint.own_fd()?;
        endpoint.served.rest(endpoint.as_raw_fd())
    }

    /// Bytes, 0 to 16777216.
    pub fn size(&self) -> usize {
        self.got.size()
    }

    /// Its sender; `0` where nobody can tell.
    pub fn from(&self) -> Addr {
        self.got.from()
    }

    /// The 8 bytes beside it.
    pub fn immediate(&self) -> Option<u64> {
        self.got.has_immediate().then(|| self.lender.served.immediate_of(self.got.number)).flatten()
    }

    /// The code of the route that it named; 0: none.
    pub fn route(&self) -> u64 {
        if self.got.has_route() {
            self.lender.served.route_of(self.got.number)
        } else {
            0
        }
    }

    /// Copies what is behind its first `begin` bytes, as far as `to` has room; how much that was.
    #[allow(unsafe_code, clippy::allow_attributes)]
    pub fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        let begin = begin.min(self.size());
        // SAFETY: it is loaned as long as this lives, and the pool lives as long as the endpoint, which this keeps. Releasing
        // by number instead needs the endpoint for oneself, which nobody has meanwhile.
        unsafe { self.got.behind(begin).copy_to(to) }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("size", &self.size()).field("from", &self.from()).finish()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lender.release(self.got.number);
    }
}
