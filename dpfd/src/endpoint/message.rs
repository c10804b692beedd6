//! A received message: a guard that borrows the pool.

use core::fmt;

use super::Endpoint;
use crate::addr::Addr;
use crate::sys::loaned::Got;

/// A message where it arrived. Dropping it releases it.
///
/// With the user-space driver its memory is shared with its sender, who is another process: a hostile one could change
/// the bytes while they are looked at. So they are *copied* out safely, or looked at in place by whoever trusts the
/// sender ([`Message::as_slice`]). With the kernel driver nobody but the kernel can write there.
pub struct Message<'a> {
    lender: &'a Endpoint,
    got: Got,
}

impl<'a> Message<'a> {
    /// The guard of what this endpoint has loaned.
    #[inline(always)]
    pub(super) fn new(lender: &'a Endpoint, got: Got) -> Message<'a> {
        Message { lender, got }
    }

    /// Bytes, 0 to 16777216.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert_eq!(message.len(), 5);
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.got.size()
    }

    /// Whether it has none. Empty messages are messages.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert!(!message.is_empty());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its sender; `0` where it came from a program that wrote plainly in another process's name.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert_eq!(message.from(), a.addr());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn from(&self) -> Addr {
        self.got.from()
    }

    /// The 8 bytes that its sender put beside it ([`Endpoint::send_parts`]); none, where it was sent without.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert_eq!(message.immediate(), None);
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn immediate(&self) -> Option<u64> {
        if self.got.has_immediate() {
            self.lender.served.immediate_of(self.got.number)
        } else {
            None
        }
    }

    /// Its first byte; valid as long as the message. For an empty message it must not be looked at.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert!(!message.as_ptr().is_null());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn as_ptr(&self) -> *const u8 {
        self.got.address()
    }

    /// Copies it, as far as `to` has room; how much that was, bytes.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// let mut two = [0; 2];
    /// assert_eq!((message.copy_to(&mut two), &two), (2, b"he"));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    #[allow(unsafe_code, clippy::allow_attributes)]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        // SAFETY: it is loaned as long as the guard lives, and the pool lives as long as the endpoint, which is borrowed.
        // A caller that releases messages without their guards must have the endpoint for itself.
        unsafe { self.got.copy_to(to) }
    }

    /// A copy.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// assert_eq!(message.to_vec(), b"hello");
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(&mut bytes);
        bytes
    }

    /// The bytes in place, without a copy.
    ///
    /// # Safety
    ///
    /// The sender must not write to the message's memory as long as the slice lives. Senders that use this
    /// library never do; a process that means harm can.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// # a.send_to(b"hello", b.addr())?;
    /// let message = b.recv()?;
    /// // SAFETY: the sender is this very program.
    /// assert_eq!(unsafe { message.as_slice() }, b"hello");
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[allow(unsafe_code, clippy::allow_attributes)]
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the pool keeps the bytes until the message is released; that nobody writes them is the
        // caller's promise.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("len", &self.len()).field("from", &self.from()).finish()
    }
}

impl Drop for Message<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lender.release(self.got.number);
    }
}
