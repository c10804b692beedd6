//! Sleeping on a word, futex(2), that another thread or process changes: in memory that they share.

use super::raw;

/// Sleeps while the word at this address is `seen`, without a limit of time: so a handler that was installed with
/// SA_RESTART lets it sleep on, as recv(2) does. Returns for no reason as well, and at once where there is no word.
///
/// # Errors
///
/// EINTR.
pub fn wait(word: usize, seen: u32) -> Result<(), i32> {
    // SAFETY: the kernel reads four bytes, if they are there, and this process touches nothing.
    match unsafe { raw::call(libc::SYS_futex, [word, libc::FUTEX_WAIT as usize, seen as usize, 0, 0, 0]) } {
        Err(libc::EINTR) => Err(libc::EINTR),
        // EAGAIN: the word was another already. EFAULT: it is gone.
        _ => Ok(()),
    }
}

/// Wakes all that sleep on the word at this address: whoever maps it may sleep there, too.
pub fn wake(word: usize) {
    // SAFETY: the kernel looks up who sleeps at the address, and touches nothing.
    let _ =
        unsafe { raw::call(libc::SYS_futex, [word, libc::FUTEX_WAKE as usize, i32::MAX as usize, 0, 0, 0]) };
}
