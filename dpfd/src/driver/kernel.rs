//! The kernel driver: endpoints that are open files of /dev/dp (dp(4)).
//!
//! ```text
//!   program A                    kernel                        program B
//!   send --- ioctl: one copy ---> pool of B, mapped ---------> recv, in place, without a call
//!   write(2) -------------------> the same pool -------------> read(2), until B reads in place
//! ```
//!
//! The kernel keeps order, room and readiness for everybody who holds the descriptor, so there is little to do here:
//! to map the pool, to remember which messages the program has, and to give their room back in order.
//!
//! | file | holds |
//! |---|---|
//! | `inner` | one endpoint: opening, sending, settings, counters |
//! | `loaned` | messages that the program has |
//! | `recv` | the calls that receive |
//! | [`list`] | what `dp ls` is told |
//! | [`network`] | other nodes |
//!
//! The system calls are in [`crate::sys::device`], the mapped pool in [`crate::sys::mapped`].

mod endpoint;
pub mod list;
mod loaned;
pub mod network;
mod recv;

pub use endpoint::KernelEndpoint;

use std::os::fd::OwnedFd;

use crate::error::{Error, Result};
use crate::sys::device;

/// Opens the device; none: there is no driver, or not for this user.
///
/// # Errors
///
/// EMFILE and others that say nothing about the driver: another driver would be as badly off.
pub fn device() -> Result<Option<OwnedFd>> {
    match device::open() {
        Ok(fd) => Ok(Some(fd)),
        Err(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::EACCES | libc::EPERM | libc::ENOTDIR) => {
            Ok(None)
        }
        Err(errno) => Err(Error::System { call: "open of /dev/dp", errno }),
    }
}

/// The same for who wants no other driver.
///
/// # Errors
///
/// [`Error::NoKernelDriver`].
pub fn required_device() -> Result<OwnedFd> {
    device::open().map_err(|errno| match errno {
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => Error::System { call: "open of /dev/dp", errno },
        errno => Error::NoKernelDriver { errno },
    })
}
