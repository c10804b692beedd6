//! Drivers: what serves the endpoint API.
//!
//! | driver | what it is |
//! |---|---|
//! | [`user`] | this library: shared memory and AF_UNIX sockets, no other process needed |
//! | [`kernel`] | the kernel's module dp behind /dev/dp |
//!
//! Programs do not notice which one there is, but endpoints of different drivers do not reach each other. So all
//! programs of a node are meant to decide alike: by what the machine has, or by `DP_DRIVER`.

pub mod kernel;
mod served;
mod sleep;
pub mod user;

use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use self::served::Served;
pub use self::sleep::{Sleep, Step};
use crate::addr::Dpid;
use crate::error::{Error, Result};

/// Which driver serves an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The library itself.
    User,
    /// The kernel, through /dev/dp.
    Kernel,
}

impl Driver {
    /// The word for it, in `DP_DRIVER` and in what is listed.
    pub fn word(self) -> &'static str {
        match self {
            Driver::User => "user",
            Driver::Kernel => "kernel",
        }
    }

    /// The one that `DP_DRIVER` asks for; none if it is unset or empty.
    ///
    /// # Errors
    ///
    /// [`Error::BadDriver`].
    pub fn forced() -> Result<Option<Driver>> {
        let Some(value) = std::env::var_os("DP_DRIVER").filter(|v| !v.is_empty()) else { return Ok(None) };
        match value.to_str() {
            Some("user") => Ok(Some(Driver::User)),
            Some("kernel") => Ok(Some(Driver::Kernel)),
            _ => Err(Error::BadDriver(value.to_string_lossy().escape_debug().to_string())),
        }
    }
}

/// Opens endpoint `dpid` (0: any free one) on this driver, or for none on the one that `DP_DRIVER` says, or on the
/// kernel's where /dev/dp can be opened, or on the library's: the program's descriptor, and what serves it.
///
/// # Errors
///
/// Those of `dp_open`.
pub fn open(driver: Option<Driver>, dpid: Dpid) -> Result<(OwnedFd, Served)> {
    let driver = driver.map_or_else(Driver::forced, |driver| Ok(Some(driver)))?;
    let device = match driver {
        Some(Driver::User) => None,
        Some(Driver::Kernel) => Some(kernel::required_device()?),
        None => kernel::device()?,
    };
    match device
        .map(|fd| kernel::KernelEndpoint::open(&fd, dpid).map(|inner| (fd, Served::Kernel(Arc::new(inner)))))
    {
        // Nobody insists, and /dev/dp is something else.
        Some(Err(Error::NoKernelDriver { .. })) if driver.is_none() => {}
        Some(opened) => return opened,
        None => {}
    }
    let (fd, inner) = user::process::Process::current()?.open(dpid)?;
    Ok((fd, Served::User(inner)))
}
