//! What is sent as one message: pieces of memory, one behind the other, and an immediate or none.
//!
//! The pieces are copied once, into the receiver's pool. An *immediate* is 8 bytes that travel beside the message: a tag, a
//! context, a port. The receiver is told it with the message; a message that was sent without one has none, which is
//! something else than 0. Programs that read plainly see the message alone.

use std::io::IoSlice;

use super::beside::{code, Beside};

/// Pieces that one message may have; as many as writev(2) takes (IOV_MAX).
pub const MOST_PIECES: usize = 1024;
/// Pieces that are handed to the kernel as they are, with what stands before them.
const FEW: usize = 8;

/// The pieces of one message, its immediate, and the route that it names.
///
/// ```
/// use std::io::IoSlice;
/// use dpfd::Parts;
///
/// let pieces = [IoSlice::new(b"header"), IoSlice::new(b"body")];
/// let parts = Parts::new(&pieces).with_immediate(7);
/// assert_eq!((parts.len(), parts.immediate()), (10, Some(7)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pieces: &'a [IoSlice<'a>],
    len: usize,
    beside: Beside,
    route: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// A message of these pieces, without an immediate.
    #[inline(always)]
    pub fn new(pieces: &'a [IoSlice<'a>]) -> Parts<'a> {
        let len = pieces.iter().fold(0usize, |sum, piece| sum.saturating_add(piece.len()));
        Parts { pieces, len, beside: Beside::of(None), route: None }
    }

    /// The same with an immediate; any 8 bytes are one.
    ///
    /// ```
    /// assert_eq!(dpfd::Parts::new(&[]).with_immediate(0).immediate(), Some(0));
    /// assert_eq!(dpfd::Parts::new(&[]).immediate(), None);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn with_immediate(self, immediate: u64) -> Parts<'a> {
        Parts { beside: Beside { immediate: Some(immediate), ..self.beside }, ..self }
    }

    /// The same, which goes to another node by the route of this name while that works, and else as all do. Those of one
    /// sender to one receiver keep their order, whatever routes they name; within a node a route changes nothing.
    ///
    /// ```
    /// let parts = dpfd::Parts::new(&[]).by_route("eth");
    /// assert_eq!((parts.route(), parts.immediate()), (Some("eth"), None));
    /// ```
    #[inline]
    #[must_use]
    pub fn by_route(self, name: &'a str) -> Parts<'a> {
        Parts { beside: Beside { route: code(name), ..self.beside }, route: Some(name), ..self }
    }

    /// What goes beside it, as it was told before.
    #[inline]
    #[must_use]
    pub(crate) fn with_beside(self, beside: Beside) -> Parts<'a> {
        Parts { beside, route: None, ..self }
    }

    /// Bytes of the message: of all pieces together, without the immediate.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its immediate.
    #[inline(always)]
    pub fn immediate(&self) -> Option<u64> {
        self.beside.immediate
    }

    /// The route that it names.
    #[inline(always)]
    pub fn route(&self) -> Option<&'a str> {
        self.route
    }

    /// What goes beside it.
    #[inline(always)]
    pub fn beside(&self) -> Beside {
        self.beside
    }

    /// The pieces.
    #[inline(always)]
    pub fn pieces(&self) -> &'a [IoSlice<'a>] {
        self.pieces
    }

    /// The message in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.len);
        self.pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        whole
    }

    /// Calls `f` with `head` and the pieces behind it, as sendmsg(2) takes them. More than a few pieces are joined first: a
    /// message that takes this way is copied several times anyhow.
    pub(crate) fn behind<T>(&self, head: &[u8], f: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let count = self.pieces.len();
        if count < FEW {
            let mut all = [IoSlice::new(head); FEW];
            all[1..=count].copy_from_slice(self.pieces);
            f(&all[..=count])
        } else {
            f(&[IoSlice::new(head), IoSlice::new(&self.to_vec())])
        }
    }
}
