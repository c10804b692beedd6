// SPDX-License-Identifier: GPL-2.0

//! The memory of a pool as tokens. Positions count bytes and never turn back; the ring's size is a power of two, so a
//! position's lower bits are its place, whatever the position. The kernel sees the ring twice in a row: what begins in
//! it is in one piece.

use kernel::{page::PAGE_SIZE, prelude::*, sync::atomic::Atomic};

use crate::{
    abi::{
        self, token_is_out_of_line, token_parts, token_span, token_word, MESSAGE_MAX, TOKEN_ALIGN,
        TOKEN_HEADER,
    },
    memory::Area,
    word,
};

pub(crate) struct Ring {
    area: Area,
    mask: u64,
    /// What was asked for; the ring may be larger.
    pub(crate) budget: u64,
}

impl Ring {
    /// A ring for `budget` bytes that has a place for tokens that take `used`, be it more.
    pub(crate) fn new(budget: u64, used: u64) -> Result<Self> {
        let bytes = budget.max(Self::least(used)).max(PAGE_SIZE as u64).next_power_of_two();
        let area = Area::new(usize::try_from(bytes)?, 2)?;
        Ok(Self { area, mask: bytes - 1, budget })
    }

    /// Bytes that tokens need which take `used`: behind the last one there is one that is empty.
    fn least(used: u64) -> u64 {
        used + TOKEN_ALIGN
    }

    pub(crate) fn has_place_for(&self, used: u64) -> bool {
        Self::least(used) <= self.bytes()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn area(&self) -> &Area {
        &self.area
    }

    /// Bytes that tokens may take, with the header behind the last one.
    pub(crate) fn limit(&self) -> u64 {
        self.budget & !(TOKEN_ALIGN - 1)
    }

    /// Valid for [`Ring::bytes`] bytes.
    pub(crate) fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: the offset is below the ring's size, and the area appears twice.
        unsafe { self.area.base().add((position & self.mask) as usize) }
    }

    fn word(&self, position: u64) -> &Atomic<u64> {
        // SAFETY: aligned by the rounding and inside of the area by at(); programs map it to be read only.
        unsafe { Atomic::from_ptr(self.at(position & !(TOKEN_ALIGN - 1)).cast()) }
    }

    /// State and length of the token at a position. Acquire: pairs with [`Spot::publish`], so the message is there.
    pub(crate) fn token(&self, position: u64) -> (u32, u64) {
        let (state, len) = token_parts(word::load_acquire(self.word(position)));
        // Only the kernel writes here, but a position from a control page may point into a message.
        let most = if token_is_out_of_line(state) { MESSAGE_MAX } else { self.bytes() - TOKEN_HEADER };
        (state, u64::from(len).min(most))
    }

    /// What will begin here is not there yet.
    pub(crate) fn clear(&self, position: u64) {
        // Relaxed: seen before any token that is published after it, because that is done with release.
        word::store(self.word(position), 0);
    }

    pub(crate) fn set_state(&self, position: u64, state: u32, len: u64) {
        word::store_release(self.word(position), token_word(state, len as u32));
    }

    pub(crate) fn sender(&self, position: u64) -> abi::Addr {
        // SAFETY: inside of the area; a published token's sender does not change.
        unsafe { self.at(position).add(8).cast::<abi::Addr>().read_volatile() }
    }

    /// The first byte of the message of a token.
    pub(crate) fn message(&self, position: u64) -> *mut u8 {
        self.at(position + TOKEN_HEADER)
    }

    /// The place of a token that its sender fills.
    pub(crate) fn spot(&self, position: u64, len: u64) -> Spot {
        Spot { token: self.at(position), len }
    }

    /// What lies between two positions, into another ring, at the same positions.
    pub(crate) fn copy_to(&self, other: &Ring, from: u64, to: u64) {
        // SAFETY: both rings have at least as many bytes as lie between; nobody else writes there now.
        unsafe { self.at(from).copy_to_nonoverlapping(other.at(from), (to - from) as usize) };
    }
}

/// A token that is being written: its place is reserved, and what comes after it is cleared.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    token: *mut u8,
    pub(crate) len: u64,
}

impl Spot {
    /// Where the message goes; valid for `len` bytes.
    pub(crate) fn message(&self) -> *mut u8 {
        // SAFETY: a token has this much and the message behind it.
        unsafe { self.token.add(TOKEN_HEADER as usize) }
    }

    /// # Safety
    ///
    /// The ring is still there, and this is called once.
    pub(crate) unsafe fn publish(&self, state: u32, from: abi::Addr) {
        // SAFETY: the place is reserved for this spot alone; readers come after the store below.
        unsafe {
            self.token.add(8).cast::<abi::Addr>().write(from);
            word::store_release(Atomic::from_ptr(self.token.cast()), token_word(state, self.len as u32));
        }
    }
}

/// Whether a message of `len` can ever be in a ring of which `limit` bytes may be used.
pub(crate) fn fits(limit: u64, len: u64) -> bool {
    token_span(len) + TOKEN_ALIGN <= limit
}
