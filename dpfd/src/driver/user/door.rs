//! At the door of a process's service: notes are put there, and a question is asked by whoever is no service itself.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::note::{Note, LEN};
use crate::addr::Dpid;
use dp_edge::sys::unix;

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way; or nobody is there to hear it, and the end will be seen.
    Done,
    /// The other side has to read first.
    Full,
    /// The kernel is short of something; nobody says when that is over.
    Short,
}

/// Sends a note, with descriptors beside it, without waiting.
pub fn send_note(fd: &OwnedFd, note: Note, fds: &[BorrowedFd<'_>]) -> Sent {
    match unix::send(fd.as_raw_fd(), &[IoSlice::new(&note.encode())], fds, libc::MSG_DONTWAIT) {
        Err(libc::EAGAIN) => Sent::Full,
        Err(libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS | libc::EINTR) => Sent::Short,
        _ => Sent::Done,
    }
}

/// What a process says of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is open.
    Open,
    /// It is not.
    Closed,
    /// Nothing, in time; or it could not even be asked.
    Nothing,
    /// It ended instead of answering.
    Over,
}

/// Asks the process whose door is at `door` whether its endpoint is open.
pub fn ask(door: &Path, dpid: Dpid, serial: u32, ms: i32) -> Answer {
    let fd = match unix::connect(door) {
        Ok(fd) => fd,
        // Endpoints without a service are none.
        Err(libc::ENOENT | libc::ECONNREFUSED) => return Answer::Closed,
        // Its backlog is full, we have no descriptor, we may not: that says nothing about the endpoint.
        Err(_) => return Answer::Nothing,
    };
    if send_note(&fd, Note::Ask { dpid, serial }, &[]) != Sent::Done {
        return Answer::Nothing;
    }
    let mut buf = [0; LEN];
    if !unix::wait(fd.as_raw_fd(), libc::POLLIN, ms).is_ok_and(|e| e & libc::POLLIN != 0) {
        return Answer::Nothing;
    }
    match unix::recv_bytes(fd.as_raw_fd(), &mut buf) {
        Ok(0) | Err(libc::ECONNRESET) => Answer::Over,
        Ok(len) => match Note::decode(&buf[..len.min(LEN)]) {
            Some(Note::Answer { open: false }) => Answer::Closed,
            Some(Note::Answer { open: true }) => Answer::Open,
            _ => Answer::Nothing,
        },
        Err(_) => Answer::Nothing,
    }
}
