//! select(2) as a poll of what is in its three sets: read, write, exceptional conditions.

use libc::pollfd;

/// What is polled for a descriptor in each of the three sets. None is part of another's.
pub const ASKED: [i16; 3] = [libc::POLLIN | libc::POLLRDNORM, libc::POLLOUT, libc::POLLPRI];
/// What makes it ready in each of them, as the kernel's select has it.
const READY: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR | libc::POLLRDBAND,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR | libc::POLLWRBAND,
    libc::POLLPRI,
];

/// The descriptor of an entry, whether or not it is left out by now.
pub fn number(p: &pollfd) -> usize {
    (if p.fd < 0 { !p.fd } else { p.fd }) as usize
}

/// Whether an entry is ready in set `which`; `None`: it is not in that set.
pub fn is_ready(p: &pollfd, which: usize) -> Option<bool> {
    let is_in = p.events & ASKED[which] == ASKED[which];
    is_in.then_some(p.fd >= 0 && p.revents & READY[which] != 0)
}

/// select(2) of a list: `timeout` in nanoseconds, negative for ever; `poll` is poll(2). In how many sets something is ready.
pub fn select(
    list: &mut [pollfd],
    timeout: i64,
    now: impl Fn() -> u64,
    mut poll: impl FnMut(&mut [pollfd], i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    let start = if timeout > 0 { now() } else { 0 };
    let mut left = timeout;
    loop {
        let n = poll(list, left)?;
        if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        let ready =
            list.iter().flat_map(|p| (0..3).filter(|&which| is_ready(p, which) == Some(true))).count();
        // What poll(2) always tells, select(2) does not tell of what is to be written to, or looked at for an exceptional condition.
        if n == 0 || ready > 0 || !leave_out(list) {
            return Ok(ready as i32);
        }
        left = if timeout < 0 { timeout } else { (timeout - (now() - start) as i64).max(0) };
    }
}

/// Takes what has hung up, and is in no set for which that counts, out of a list; whether there was any. The complement of its number
/// stands for it there.
fn leave_out(list: &mut [pollfd]) -> bool {
    let gone = |p: &&mut pollfd| p.fd >= 0 && p.revents != 0;
    list.iter_mut().filter(gone).map(|p| (p.fd, p.revents) = (!p.fd, 0)).count() > 0
}
