//! Endpoints read and written by io_uring(7), without a runtime: one read that brings message after message in buffers
//! that the kernel picks, writes out of a registered buffer, registered files.
//!
//!     cargo run -p dpfd --example uring [read-multishot | recv-multishot | read]
//!
//! Without an argument it takes the first of these that the kernel has (since 6.7, 6.0, 5.7), and says which.

use std::{error::Error, io, os::fd::AsRawFd, ptr::null_mut};

use dpfd::Endpoint;
use io_uring::opcode::{ProvideBuffers, Read, ReadMulti, RecvMulti, SendZc, WriteFixed};
use io_uring::squeue::{Entry, Flags, PushError};
use io_uring::{cqueue, types::Fixed, IoUring, Probe};

const MESSAGES: u32 = 1000;
const SENDER: Fixed = Fixed(0); // its place among the registered files
const RECEIVER: Fixed = Fixed(1);
const BUFFERS: u16 = 8; // for what is read, all of group 0
const SIZE: usize = 64; // of one, bytes
const READ: u64 = 1; // what a completion is about
const WRITTEN: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let (sender, receiver) = (Endpoint::open(0)?, Endpoint::open(0)?);
    sender.target(receiver.addr())?;
    // Made before the ring, so that they outlive it.
    let mut out = [0u8; 4];
    let mut buffers = vec![0u8; SIZE * usize::from(BUFFERS)];
    let mut ring = IoUring::new(32)?;
    let how = std::env::args().nth(1).map_or_else(|| best(&ring), Ok)?;
    ring.submitter().register_files(&[sender.as_raw_fd(), receiver.as_raw_fd()])?;
    let piece = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    // SAFETY: `out` outlives the ring.
    unsafe { ring.submitter().register_buffers(&[piece])? };
    push(&mut ring, provide(&mut buffers, 0, BUFFERS))?;
    push(&mut ring, read(&how)?)?;
    push(&mut ring, write(&mut out, 0))?;
    let (mut written, mut got) = (0, 0);
    while got < MESSAGES {
        ring.submit_and_wait(1)?;
        for done in ring.completion().collect::<Vec<_>>() {
            let (about, n) = (done.user_data(), done.result());
            // ENOBUFS: all buffers held messages. They are on their way back, and the next read is behind them.
            if n < 0 && (about, n) != (READ, -libc::ENOBUFS) {
                return Err(io::Error::from_raw_os_error(-n).into());
            }
            if let Some(id) = cqueue::buffer_select(done.flags()) {
                let at = SIZE * usize::from(id);
                assert_eq!(buffers[at..at + n as usize], got.to_ne_bytes(), "whole, and in order");
                got += 1;
                push(&mut ring, provide(&mut buffers, id, 1))?;
            }
            if about == READ && !cqueue::more(done.flags()) {
                push(&mut ring, read(&how)?)?;
            }
            if about == WRITTEN && written + 1 < MESSAGES {
                written += 1;
                push(&mut ring, write(&mut out, written))?;
            }
        }
    }
    println!("{how}: {got} messages");
    Ok(())
}

/// The best way to read that this kernel has.
fn best(ring: &IoUring) -> io::Result<String> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    // recv-multishot is a flag, of which a probe knows nothing; it came with the same kernel as SEND_ZC.
    let has = |code, name| probe.is_supported(code).then_some(name);
    let found = has(ReadMulti::CODE, "read-multishot").or(has(SendZc::CODE, "recv-multishot"));
    Ok(found.unwrap_or("read").to_string())
}

fn read(how: &str) -> Result<Entry, String> {
    let entry = match how {
        // The flag of registered files is lost in io-uring 0.7.15.
        "read-multishot" => ReadMulti::new(RECEIVER, 0, 0).build().flags(Flags::FIXED_FILE),
        "recv-multishot" => RecvMulti::new(RECEIVER, 0).build(),
        "read" => Read::new(RECEIVER, null_mut(), SIZE as u32).build().flags(Flags::BUFFER_SELECT),
        _ => return Err(format!("{how} is no way to read")),
    };
    Ok(entry.user_data(READ))
}

fn write(out: &mut [u8; 4], i: u32) -> Entry {
    *out = i.to_ne_bytes();
    WriteFixed::new(SENDER, out.as_ptr(), 4, 0).build().user_data(WRITTEN)
}

/// Gives the kernel `count` buffers from `id` on.
fn provide(buffers: &mut [u8], id: u16, count: u16) -> Entry {
    ProvideBuffers::new(&mut buffers[SIZE * usize::from(id)], SIZE as i32, count, 0, id).build()
}

fn push(ring: &mut IoUring, entry: Entry) -> Result<(), PushError> {
    // SAFETY: entries point into `out` and `buffers`, which outlive the ring.
    unsafe { ring.submission().push(&entry) }
}
