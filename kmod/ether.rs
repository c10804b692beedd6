// SPDX-License-Identifier: GPL-2.0

//! What ether.c gives: attached interfaces, frames sent by them, frames received. `ether.h` declares the same.

use core::{mem::MaybeUninit, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    iov::IovIterSource,
    prelude::*,
};

use crate::{
    abi::IFACE_NAME,
    frame::{Frame, FRAME_HEADER},
};

extern "C" {
    fn dp_ether_free(ether: *mut c_void);
    fn dp_ether_may_administer(ether: *const c_void) -> c_int;
    fn dp_ether_attach(ether: *mut c_void, name: *const u8) -> c_int;
    fn dp_ether_detach(ether: *mut c_void, name: *const u8) -> c_int;
    fn dp_ether_next(ether: *mut c_void, after: c_int, out: *mut Port) -> bool;
    fn dp_ether_send(
        ether: *mut c_void,
        index: c_int,
        mac: *const u8,
        header: *const u8,
        from: *mut kernel::bindings::iov_iter,
        len: usize,
    ) -> c_int;
    fn dp_ether_source(skb: *const c_void) -> *const u8;
    fn dp_ether_behind_header(skb: *const c_void) -> usize;
    fn dp_ether_copy(skb: *const c_void, at: usize, to: *mut c_void, len: usize) -> bool;
    fn dp_ether_free_frame(skb: *mut c_void);
}

pub(crate) type Mac = [u8; 6];

/// The interfaces of a network namespace that are attached.
pub(crate) struct Ether(pub(crate) NonNull<c_void>);

// SAFETY: the functions behind it lock what they change.
unsafe impl Send for Ether {}
// SAFETY: as above.
unsafe impl Sync for Ether {}

/// An attached interface.
#[repr(C)]
pub(crate) struct Port {
    pub(crate) index: c_int,
    pub(crate) mtu: u32,
    pub(crate) name: [u8; IFACE_NAME],
}

/// An interface's name as it came from a program: it ends in it.
pub(crate) struct Name<'a>(&'a [u8; IFACE_NAME]);

impl<'a> Name<'a> {
    pub(crate) fn new(name: &'a [u8; IFACE_NAME]) -> Result<Self> {
        (name[0] != 0 && name.contains(&0)).then_some(Self(name)).ok_or(EINVAL)
    }

    fn is(&self, other: &[u8; IFACE_NAME]) -> bool {
        let text = |name: &'a [u8]| name.split(|b| *b == 0).next();
        text(self.0) == other.split(|b| *b == 0).next()
    }
}

impl Ether {
    /// # Safety
    ///
    /// From dp_ether_new(), and not used otherwise from here on but for what C does with it until its namespace goes.
    pub(crate) unsafe fn new(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Whether the calling process may change anything here.
    pub(crate) fn may_administer(&self) -> Result {
        // SAFETY: it lives; process context.
        to_result(unsafe { dp_ether_may_administer(self.0.as_ptr()) })
    }

    pub(crate) fn attach(&self, name: Name<'_>) -> Result {
        // SAFETY: as above; the name ends with a zero.
        to_result(unsafe { dp_ether_attach(self.0.as_ptr(), name.0.as_ptr()) })
    }

    pub(crate) fn detach(&self, name: Name<'_>) -> Result {
        // SAFETY: as above.
        to_result(unsafe { dp_ether_detach(self.0.as_ptr(), name.0.as_ptr()) })
    }

    /// All that are attached, by their indices.
    pub(crate) fn ports(&self) -> impl Iterator<Item = Port> + '_ {
        let mut after = 0;
        core::iter::from_fn(move || {
            let mut port = MaybeUninit::<Port>::zeroed();
            // SAFETY: as above; a port of zeros is one, and it is filled if there is one.
            let port = unsafe {
                dp_ether_next(self.0.as_ptr(), after, port.as_mut_ptr()).then(|| port.assume_init())
            }?;
            after = port.index;
            Some(port)
        })
    }

    pub(crate) fn port_named(&self, name: &Name<'_>) -> Result<Port> {
        self.ports().find(|port| name.is(&port.name)).ok_or(ENODEV)
    }

    pub(crate) fn port(&self, index: c_int) -> Option<Port> {
        self.ports().find(|port| port.index == index)
    }

    /// One frame with the next `frame.bytes` of the message.
    pub(crate) fn send(
        &self,
        index: c_int,
        mac: &Mac,
        frame: &Frame,
        from: &mut IovIterSource<'_>,
    ) -> Result {
        let header = frame.encode();
        // SAFETY: as above; addresses and header have the lengths that are expected.
        to_result(unsafe {
            dp_ether_send(
                self.0.as_ptr(),
                index,
                mac.as_ptr(),
                header.as_ptr(),
                from.as_raw(),
                frame.bytes.into(),
            )
        })
    }
}

impl Drop for Ether {
    fn drop(&mut self) {
        // SAFETY: its namespace has stopped it, or never started it.
        unsafe { dp_ether_free(self.0.as_ptr()) };
    }
}

/// A frame that was received. It begins with our header.
pub(crate) struct Received(NonNull<c_void>);

/// The part of a message that such a frame carries.
pub(crate) struct Part {
    frame: Received,
    pub(crate) bytes: usize,
}

// SAFETY: it belongs to whoever has it.
unsafe impl Send for Received {}

impl Received {
    /// # Safety
    ///
    /// A frame of an attached interface that belongs to nobody else.
    pub(crate) unsafe fn new(skb: NonNull<c_void>) -> Self {
        Self(skb)
    }

    /// Which machine it came from.
    pub(crate) fn source(&self) -> Mac {
        // SAFETY: it lives, and has an Ethernet header.
        unsafe { dp_ether_source(self.0.as_ptr()).cast::<Mac>().read_unaligned() }
    }

    /// What it says, and its part, if it is one of ours.
    pub(crate) fn open(self) -> Option<(Frame, Part)> {
        let mut header = [0; FRAME_HEADER];
        // SAFETY: it lives.
        let left = unsafe { dp_ether_behind_header(self.0.as_ptr()) };
        if left == usize::MAX || !self.copy(0, header.as_mut_ptr(), header.len()) {
            return None;
        }
        let frame = Frame::decode(&header, left)?;
        Some((frame, Part { frame: self, bytes: frame.bytes.into() }))
    }

    fn copy(&self, at: usize, to: *mut u8, len: usize) -> bool {
        // SAFETY: by what the callers promise.
        unsafe { dp_ether_copy(self.0.as_ptr(), at, to.cast(), len) }
    }
}

impl Part {
    /// Copies it; false: it is not there.
    ///
    /// # Safety
    ///
    /// `to` is valid for as many bytes.
    pub(crate) unsafe fn copy_to(&self, to: *mut u8) -> bool {
        self.frame.copy(FRAME_HEADER, to, self.bytes)
    }
}

#[cfg(CONFIG_KUNIT = "y")]
impl Part {
    /// For tests of what is done with parts: of a frame in which nothing is.
    pub(crate) fn without_frame(bytes: usize) -> Result<Self> {
        // SAFETY: given back when dropped.
        let skb = unsafe { kernel::bindings::__alloc_skb(64, kernel::bindings::GFP_KERNEL, 0, -1) };
        let skb = NonNull::new(skb.cast()).ok_or(ENOMEM)?;
        Ok(Self { frame: Received(skb), bytes })
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { dp_ether_free_frame(self.0.as_ptr()) };
    }
}
