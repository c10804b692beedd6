//! Calls of a loaded route, and what of its answers is believed.

use std::ffi::{c_int, c_void, CStr};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::errno::Errno;

use super::{errno, Functions, Slot};
use crate::address::{Label, LABEL_MAX, NAME_MAX};
use crate::{not_ours, Counters, Frames, PeerAddr, Reason, Received, Route, FRAME_MAX};

/// Slots that one call fills at most.
const SLOTS: usize = 32;

/// A route of somebody else's that is open.
#[derive(Debug)]
pub struct External {
    pub(super) functions: Functions,
    pub(super) name: Label<NAME_MAX>,
    pub(super) state: NonNull<c_void>,
    pub(super) local: PeerAddr,
    pub(super) descriptor: c_int,
    pub(super) slot: usize,
    /// The function that gave an impossible answer.
    pub(super) broken: Option<&'static str>,
    pub(super) counters: Counters,
}

// SAFETY: the interface says that its functions are called from one thread at a time, and does not bind them to one.
unsafe impl Send for External {}

impl External {
    /// The address as the library wants it, with its end.
    fn text(&mut self, to: &PeerAddr) -> io::Result<[u8; LABEL_MAX + 1]> {
        self.sound()?;
        match to {
            PeerAddr::Other { at, .. } if to.route() == self.name.as_str() => {
                let mut text = [0; LABEL_MAX + 1];
                text[..at.as_str().len()].copy_from_slice(at.as_str().as_bytes());
                Ok(text)
            }
            _ => Err(not_ours(&mut self.counters)),
        }
    }

    fn sound(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |_| Err(Errno::EPROTO.into()))
    }

    /// Never calls it again.
    fn give_up(&mut self, what: &'static str) -> io::Error {
        self.broken = Some(what);
        Errno::EPROTO.into()
    }
}

impl Route for External {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn local(&self) -> PeerAddr {
        self.local
    }

    fn mtu(&mut self, to: &PeerAddr) -> io::Result<usize> {
        let text = self.text(to)?;
        // SAFETY: a text with its end.
        let mtu = errno(unsafe { (self.functions.mtu)(self.state.as_ptr(), text.as_ptr().cast()) })?;
        if !(1..=FRAME_MAX).contains(&mtu) {
            return Err(self.give_up("the library's mtu() gave an impossible number"));
        }
        Ok(mtu)
    }

    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        let text = self.text(to)?;
        if frames.is_empty() {
            return Ok(0);
        }
        let (bytes, lengths) = (frames.bytes(), frames.lengths());
        // SAFETY: a text with its end; as many lengths as it is told, and as many bytes as these add up to.
        let answer = errno(unsafe {
            let to = text.as_ptr().cast();
            (self.functions.send)(
                self.state.as_ptr(),
                to,
                bytes.as_ptr().cast(),
                lengths.as_ptr(),
                lengths.len(),
            )
        });
        match answer {
            Ok(n) if n > frames.len() => Err(self.give_up("the library's send() sent more than it had")),
            Ok(n) => {
                self.counters.send(n, bytes.len() - frames.after(n).bytes().len());
                self.counters.refuse(Reason::Full, usize::from(n < frames.len()));
                Ok(n)
            }
            Err(error) => {
                let reason = Reason::of(&error);
                self.counters.refuse(reason, 1);
                if reason == Reason::Full {
                    Ok(0)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn recv(&mut self, into: &mut Received) -> io::Result<usize> {
        into.clear();
        self.sound()?;
        let room = into.slot();
        if room < self.slot {
            return Err(Errno::EINVAL.into());
        }
        let none =
            Slot { bytes: std::ptr::null_mut(), room: 0, length: 0, each: 0, from: [0; LABEL_MAX + 1] };
        let mut slots = [none; SLOTS];
        let mut n = 0;
        for (slot, bytes) in slots.iter_mut().zip(into.room().chunks_exact_mut(room)) {
            slot.bytes = bytes.as_mut_ptr().cast();
            slot.room = u32::try_from(room).unwrap_or(u32::MAX);
            n += 1;
        }
        // SAFETY: n slots, each of which names room of its own.
        let got = errno(unsafe { (self.functions.recv)(self.state.as_ptr(), slots.as_mut_ptr(), n) });
        let got = match got {
            Ok(got) if got > n => {
                return Err(self.give_up("the library's recv() filled more slots than it had"))
            }
            Ok(got) => got,
            Err(error) if Reason::of(&error) == Reason::Full => return Ok(0),
            Err(error) => {
                self.counters.refuse(Reason::of(&error), 1);
                return Err(error);
            }
        };
        let (mut frames, mut bytes) = (0, 0);
        for (at, slot) in slots[..got].iter().enumerate() {
            let text = CStr::from_bytes_until_nul(&slot.from).ok().and_then(|text| text.to_str().ok());
            let from = text.and_then(|text| PeerAddr::other(self.name.as_str(), text).ok());
            let (length, each) = (slot.length as usize, slot.each as usize);
            let pushed = from.filter(|_| each <= length).map_or(0, |from| into.push(at, from, length, each));
            if pushed == 0 {
                into.clear();
                return Err(self.give_up("the library's recv() filled a slot with what cannot be"));
            }
            frames += pushed;
            bytes += length;
        }
        self.counters.receive(frames, bytes);
        Ok(frames)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it was open when the library gave it, and stays so until close, by the interface.
        Some(unsafe { BorrowedFd::borrow_raw(self.descriptor) })
    }

    fn refresh(&mut self) -> io::Result<()> {
        self.sound()?;
        // SAFETY: the state of an open route.
        errno(unsafe { (self.functions.refresh)(self.state.as_ptr()) } as isize).map(|_| ())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn remark(&self) -> Option<&str> {
        self.broken
    }
}

impl Drop for External {
    fn drop(&mut self) {
        // SAFETY: open gave this state, and nobody uses it any more.
        unsafe { (self.functions.close)(self.state.as_ptr()) }
    }
}
