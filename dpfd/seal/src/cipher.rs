//! The cipher of frames: ChaCha20-Poly1305 (RFC 8439), with a counter as its nonce.
//!
//! Of a frame that is authenticated only, all is what the RFC calls additional data, and the text is empty.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};

use crate::packet::{HEAD, TAG};
use crate::Mode;

/// One direction's key of a session. Its memory is cleared when it is dropped.
pub(crate) struct Cipher(ChaCha20Poly1305);

impl Cipher {
    pub fn new(key: &[u8; 32]) -> Cipher {
        Cipher(ChaCha20Poly1305::new(key.into()))
    }

    /// Encrypts, in place, what stands behind the head, or nothing; and puts the tag of all at the end. The counter must
    /// be new: with two texts of one counter the key is lost. False: it is longer than the cipher allows, 256 GiB.
    pub fn seal(&self, counter: u64, mode: Mode, packet: &mut [u8]) -> bool {
        let (text, tag) = packet.split_at_mut(packet.len() - TAG);
        let (known, text) = text.split_at_mut(known(mode, text.len()));
        match self.0.encrypt_in_place_detached(&nonce(counter).into(), known, text) {
            Ok(made) => tag.copy_from_slice(&made),
            Err(_) => return false,
        }
        true
    }

    /// The reverse, if the tag is right; else nothing is changed.
    pub fn open(&self, counter: u64, mode: Mode, packet: &mut [u8]) -> bool {
        let (text, tag) = packet.split_at_mut(packet.len() - TAG);
        let (known, text) = text.split_at_mut(known(mode, text.len()));
        self.0.decrypt_in_place_detached(&nonce(counter).into(), known, text, (&*tag).into()).is_ok()
    }
}

/// Bytes of a packet, without its tag, that stay as they are.
fn known(mode: Mode, all: usize) -> usize {
    match mode {
        Mode::Authenticate => all,
        Mode::Encrypt => HEAD,
    }
}

/// As the Noise protocol makes it.
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}
