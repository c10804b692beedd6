//! Another holder of the descriptor writes nonsense into the control page, which it can map as well: messages can be
//! lost or mangled by that, and calls fail, but nothing crashes or hangs.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use nix::sys::mman::{mmap, MapFlags, ProtFlags};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;

use crate::kit::*;

pub fn nonsense_in_the_control_page_is_survived(d: Driver) {
    let (a, b) = pooled(d, 16 << 10);
    a.set_nonblocking(true).expect("a flag");
    b.set_nonblocking(true).expect("a flag");
    let page = NonZeroUsize::new(4096).expect("a page");
    let vandal = child(|| {
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping; what is written there is what this is about.
        let words = unsafe { mmap(None, page, both, MapFlags::MAP_SHARED, &b, dp_abi::MAP_CONTROL as i64) };
        let words = words.expect("the control page").cast::<u64>().as_ptr();
        let mut x = 88_172_645_463_325_252u64;
        loop {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // Likely ones, and others: `taken` is the first word, `released` the ninth.
            let value = if x % 3 == 0 { x } else { ((x >> 8) % (64 << 10)) & !63 };
            // SAFETY: inside of the page.
            unsafe { words.add(8 * (x as usize % 2)).write_volatile(value) };
        }
    });
    let began = Instant::now();
    let (mut i, mut got, mut failed) = (0, 0, 0);
    // At least until it has been hit, however little of the machine the vandal got.
    while began.elapsed() < Duration::from_secs(2) || (failed == 0 && began.elapsed() < SOON) {
        // Words that look like tokens, and long ones that are out of line.
        let len = if i % 50 == 0 { 40_000 } else { 8 + (i * 37 % 900) as usize };
        let _ = a.send(&vec![(i % 5) as u8; len]);
        match b.recv() {
            Ok(message) => got += usize::from(message.to_vec().len() <= 16 << 20),
            Err(_) => failed += 1,
        }
        i += 1;
    }
    kill(vandal.0, Signal::SIGKILL).expect("the child");
    let _ = waitpid(vandal.0, None);
    assert!(got > 0 && failed > 0, "{got} messages, {failed} failures");
    // Others are as they were.
    let (a, b) = pooled(d, 16 << 10);
    a.send(b"whole").expect("room");
    assert_eq!(recv(&b), b"whole");
}
