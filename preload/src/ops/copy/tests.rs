use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

use crate::testing::{receive, send, Pair};

extern "C" fn does_nothing(_: c_int) {}

fn handle(flags: c_int) {
    // SAFETY: plain data, and a handler that does nothing.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (does_nothing as *const () as usize, flags);
        assert_eq!(signals::set(libc::SIGWINCH, &action, core::ptr::null_mut()), 0);
    }
}

/// A handler that runs while the first piece of a file is read is none that came before the call: where there is no room, it ends
/// the call as it ends a send.
#[test]
fn a_handler_that_runs_while_the_first_piece_is_read_ends_sendfile() {
    for (flags, limit) in [(0, 0), (libc::SA_RESTART, 20)] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        let limit = libc::timeval { tv_sec: limit, tv_usec: 0 };
        raw::setsockopt(to.fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &limit, size_of_val(&limit)).unwrap();
        handle(flags);
        // Until what is on its way makes no room any more, either.
        while send(to, &[7; 1000], 0).is_ok() {
            while send(to, &[7; 1000], 0).is_ok() {}
            raw::nap(50_000_000);
        }
        let over = AtomicBool::new(false);
        let (mut buf, mut offset) = ([0; 100], 0);
        let (sent, error, took) = std::thread::scope(|s| {
            s.spawn(|| {
                // Against a wait without end.
                let began = Instant::now();
                while !over.load(Ordering::SeqCst) {
                    if began.elapsed() > Duration::from_secs(5) {
                        let _ = receive(from, 1 << 20);
                    }
                    raw::nap(1_000_000);
                }
            });
            let read = |buf: &mut [u8], _| {
                // SAFETY: a signal to this thread, with a handler.
                assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
                buf.len() as ssize_t
            };
            let frame = 0u8;
            let at = Inside::enter(to.fd, &frame).expect("a connection");
            let began = Instant::now();
            // SAFETY: a variable of ours.
            let sent =
                unsafe { copy_file((to.family, at), (-1, &read), &raw mut offset, buf.len(), &mut buf) };
            let result = (sent, errno(), began.elapsed());
            at.leave();
            over.store(true, Ordering::SeqCst);
            result
        });
        assert_eq!((sent, error, offset), (-1, libc::EINTR, 0), "{flags:#x}");
        assert!(took < Duration::from_secs(4), "{flags:#x}: {took:?}");
    }
}

/// A call inside whose number the program has closed asks whether the socket blocks.
#[test]
fn what_nobody_answers_is_not_kept_for_others() {
    let pair = crate::testing::Pair::new();
    let c = pair.client;
    let mode = raw::fcntl(c.fd, libc::F_GETFL, 0).expect("a socket");
    raw::fcntl(c.fd, libc::F_SETFL, mode | libc::O_NONBLOCK as usize).expect("a socket");
    assert!(!c.by(-1).is_nonblocking());
    assert!(c.is_nonblocking());
}
