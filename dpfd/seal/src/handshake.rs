//! The handshake: Noise NNpsk0 (the Noise Protocol Framework, revision 34), by the crate `snow`.
//!
//! ```text
//!   -> psk, e        INITIATION
//!   <- e, ee         RESPONSE       both sides have the session's keys, which are made of psk and ee
//! ```
//!
//! Both ephemeral keys are forgotten, so who finds out the graph's key later cannot read what was sent before. Who has it
//! already can be in the middle: nodes of one graph trust one another.

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use crate::packet::{MAC_AT, PROLOGUE, WORD};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Keys of a session.
pub(crate) struct Keys {
    /// What both sides call it: of everything that was said in the handshake.
    pub id: u32,
    /// Of what the one who began sends.
    pub forth: Zeroizing<[u8; 32]>,
    /// Of what the other one sends.
    pub back: Zeroizing<[u8; 32]>,
}

/// What waits for a RESPONSE.
pub(crate) struct Pending(HandshakeState);

/// Writes the message of an INITIATION behind its head. Nothing: there are no random numbers.
pub(crate) fn initiate(psk: &[u8; 32], word: &mut [u8; WORD]) -> Option<Pending> {
    let (head, message) = word.split_at_mut(PROLOGUE);
    let mut noise = builder(psk, head)?.build_initiator().ok()?;
    let written = noise.write_message(&[], &mut message[..MAC_AT - PROLOGUE]).ok()?;
    (written == MAC_AT - PROLOGUE).then_some(Pending(noise))
}

/// Answers an INITIATION: writes the message of a RESPONSE. Nothing: it contradicts itself.
pub(crate) fn answer(psk: &[u8; 32], initiation: &[u8; WORD], response: &mut [u8; WORD]) -> Option<Keys> {
    let (head, message) = initiation[..MAC_AT].split_at(PROLOGUE);
    let mut noise = builder(psk, head)?.build_responder().ok()?;
    noise.read_message(message, &mut []).ok()?;
    let written = noise.write_message(&[], &mut response[PROLOGUE..MAC_AT]).ok()?;
    (written == MAC_AT - PROLOGUE).then(|| keys(&mut noise))
}

/// Takes a RESPONSE in. Nothing: it is not to this INITIATION, and another may still be.
pub(crate) fn complete(mut pending: Pending, response: &[u8; WORD]) -> Option<Keys> {
    pending.0.read_message(&response[PROLOGUE..MAC_AT], &mut []).ok()?;
    Some(keys(&mut pending.0))
}

fn builder<'a>(psk: &'a [u8; 32], prologue: &'a [u8]) -> Option<Builder<'a>> {
    let pattern: NoiseParams = PATTERN.parse().ok()?;
    Builder::new(pattern).psk(0, psk).ok()?.prologue(prologue).ok()
}

fn keys(noise: &mut HandshakeState) -> Keys {
    let hash = noise.get_handshake_hash();
    let id = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
    let (forth, back) = noise.dangerously_get_raw_split();
    Keys { id, forth: Zeroizing::new(forth), back: Zeroizing::new(back) }
}
