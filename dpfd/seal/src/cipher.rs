//! The ciphers of frames, with a counter as nonce: one for each mode, by the crate `ring`.
//!
//! A frame that is authenticated only is what these ciphers call additional data, and the text is empty. AES-GCM is the
//! quicker one by far where a processor has instructions for it, but in `ring` for texts only; ChaCha20-Poly1305 is the
//! quicker one for additional data. `tests/measure.rs` tells.

use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, CHACHA20_POLY1305};

use crate::packet::{HEAD, TAG};
use crate::Mode;

/// One direction's key of a session.
pub(crate) struct Cipher {
    key: LessSafeKey,
    mode: Mode,
}

impl Cipher {
    /// Of 32 bytes there always is one.
    pub fn new(mode: Mode, key: &[u8; 32]) -> Option<Cipher> {
        let algorithm = match mode {
            Mode::Authenticate => &CHACHA20_POLY1305,
            Mode::Encrypt => &AES_256_GCM,
        };
        Some(Cipher { key: LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?), mode })
    }

    /// Encrypts, in place, what stands behind the head, or nothing; and puts the tag of all at the end. The counter must
    /// be new: with two texts of one counter the key is lost. False: it is longer than the cipher allows, 64 GiB.
    pub fn seal(&self, counter: u64, packet: &mut [u8]) -> bool {
        let (text, tag) = packet.split_at_mut(packet.len() - TAG);
        let (known, text) = text.split_at_mut(self.known(text.len()));
        match self.key.seal_in_place_separate_tag(nonce(counter), Aad::from(&*known), text) {
            Ok(made) => tag.copy_from_slice(made.as_ref()),
            Err(_) => return false,
        }
        true
    }

    /// The reverse. False: the tag is wrong, and what the packet holds is of no use any more.
    pub fn open(&self, counter: u64, packet: &mut [u8]) -> bool {
        let (known, text) = packet.split_at_mut(self.known(packet.len() - TAG));
        self.key.open_in_place(nonce(counter), Aad::from(&*known), text).is_ok()
    }

    /// Bytes of a packet that stay as they are, of so many without the tag.
    fn known(&self, all: usize) -> usize {
        match self.mode {
            Mode::Authenticate => all,
            Mode::Encrypt => HEAD,
        }
    }

    /// Writes another key over this one: `ring` does not clear its memory.
    pub fn clear(&mut self) {
        if let Some(blank) = Cipher::new(self.mode, &[0; 32]) {
            self.key = blank.key;
        }
        // Else the compiler may leave out what nobody reads.
        std::hint::black_box(self);
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}
