//! The key of a graph, and what is derived from it.

use core::fmt;

use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit, Mac};
use blake2::Blake2sMac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a key.
pub const KEY: usize = 32;

/// What all nodes of a graph know, and nobody else: 32 random bytes. As text, 64 hexadecimal digits. It is not shown by
/// `{:?}`, and its memory is cleared when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct GraphKey([u8; KEY]);

/// Why a text is no key. The text is not told, since it may be half of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKey {
    /// So many characters.
    #[error("a key has 64 hexadecimal digits, and here are {0} characters")]
    Length(usize),
    /// At this character, from 1.
    #[error("a key has 64 hexadecimal digits, and character {0} is none")]
    Digit(usize),
    /// All digits are the same: this was typed.
    #[error("this is no random key; `dp graph key FILE` makes one")]
    Constant,
}

/// The system gave no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system gives no random numbers; see getrandom(2)")]
pub struct NoRandom;

impl GraphKey {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<GraphKey, NoRandom> {
        let mut key = GraphKey([0; KEY]);
        SystemRandom::new().fill(&mut key.0).map_err(|_| NoRandom)?;
        Ok(key)
    }

    /// These bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY]) -> GraphKey {
        GraphKey(bytes)
    }

    /// From its text. Spaces and ends of lines around it do not matter.
    ///
    /// # Errors
    /// It is no key.
    pub fn parse(text: &str) -> Result<GraphKey, BadKey> {
        let digits = text.trim();
        if let Some(at) = digits.chars().position(|c| !c.is_ascii_hexdigit()) {
            return Err(BadKey::Digit(at + 1));
        }
        if digits.len() != 2 * KEY {
            return Err(BadKey::Length(digits.len()));
        }
        let mut key = GraphKey([0; KEY]);
        for (at, byte) in key.0.iter_mut().enumerate() {
            // Two digits, as was seen above.
            *byte = u8::from_str_radix(&digits[2 * at..][..2], 16).map_err(|_| BadKey::Digit(2 * at + 1))?;
        }
        if key.0.iter().all(|byte| *byte == key.0[0]) {
            return Err(BadKey::Constant);
        }
        Ok(key)
    }

    /// Its text, with an end of line.
    pub fn to_text(&self) -> String {
        let digits = |byte: u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
        let mut text: String = self.0.iter().flat_map(|byte| digits(*byte)).flatten().collect();
        text.push('\n');
        text
    }
}

impl fmt::Debug for GraphKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GraphKey(..)")
    }
}

/// What is derived from a key: one for each use, so that none can be turned against another.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secrets {
    /// Of macs.
    mac: [u8; KEY],
    /// The pre-shared key of the Noise handshake.
    pub psk: [u8; KEY],
}

impl Secrets {
    pub fn new(key: &GraphKey) -> Secrets {
        Secrets { mac: derived(key, b"dp-seal 1 mac"), psk: derived(key, b"dp-seal 1 noise") }
    }

    pub fn mac(&self, bytes: &[u8]) -> [u8; 16] {
        <Blake2sMac<U16> as KeyInit>::new(&self.mac.into()).chain_update(bytes).finalize().into_bytes().into()
    }

    /// In the same time wherever they differ.
    pub fn is_mac(&self, bytes: &[u8], mac: &[u8]) -> bool {
        <Blake2sMac<U16> as KeyInit>::new(&self.mac.into()).chain_update(bytes).verify_slice(mac).is_ok()
    }
}

fn derived(key: &GraphKey, label: &[u8]) -> [u8; KEY] {
    <Blake2sMac<U32> as KeyInit>::new(&key.0.into()).chain_update(label).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
