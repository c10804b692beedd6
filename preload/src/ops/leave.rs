//! Places where a connection leaves our sight: stdio, other processes.

use core::ffi::{c_char, c_int, c_void};

use dp_channel::family::Reason;
use libc::{msghdr, FILE};

use crate::fdtable::{self, Entry};
use crate::{epoll, exec, give, kept, leave, life, real, state};

/// fdopen(3): glibc reads and writes inside itself from now on, so the connection goes back to TCP first.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // One that is connected later would be a channel, of which the stream knows nothing.
    fdtable::no_more_alone(fd);
    if fdtable::conn(fd).is_some() {
        give::give_number(fd, Reason::Stdio);
    }
    // SAFETY: the program's arguments.
    unsafe { real::fdopen()(fd, mode) }
}

/// fclose(3): closes a descriptor without our hook of close.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn fclose(f: *mut FILE) -> c_int {
    // SAFETY: the program's argument.
    unsafe {
        closing(f);
        real::fclose()(f)
    }
}

/// Before glibc closes the descriptor of stream `f` inside itself.
///
/// # Safety
///
/// `f` is a stream of the program's, or null.
unsafe fn closing(f: *mut FILE) {
    if f.is_null() {
        return;
    }
    // SAFETY: the program's stream.
    let fd = unsafe { libc::fileno(f) };
    if fd >= 0 && fdtable::conn(fd).is_some() {
        life::before_close(fd);
    }
}

/// freopen(3): puts another file at the stream's number, or closes that, without our hooks of dup3 and close.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn freopen(path: *const c_char, mode: *const c_char, f: *mut FILE) -> *mut FILE {
    // SAFETY: the program's arguments.
    unsafe {
        closing(f);
        real::freopen()(path, mode, f)
    }
}

/// freopen64(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn freopen64(path: *const c_char, mode: *const c_char, f: *mut FILE) -> *mut FILE {
    // SAFETY: the program's arguments.
    unsafe {
        closing(f);
        real::freopen64()(path, mode, f)
    }
}

/// Room for the control data of an ordinary message, 64 descriptors and credentials: a thread's stack may be a small one.
const LITTLE: usize = 320;

#[repr(C, align(8))]
struct Control([u8; LITTLE]);

/// A message with descriptors of connections in it is about to go: they leave their channel, and what is sent
/// instead of them, if anything, goes with `send`.
///
/// # Safety
///
/// `m` is the program's message.
pub unsafe fn passing<R>(m: &msghdr, mut send: impl FnMut(*const msghdr) -> R) -> R {
    // SAFETY: the program's message; each has room for its control data.
    unsafe {
        if m.msg_controllen <= LITTLE {
            let mut copy = Control([0; LITTLE]);
            return passing_by(m, (&raw mut copy).cast(), &mut send);
        }
        // 253 descriptors, the kernel's limit, are much less.
        let copied =
            if m.msg_controllen <= kept::SIZE { kept::with(|to| passing_by(m, to, &mut send)) } else { None };
        copied.unwrap_or_else(|| {
            each_passed(m, |at| {
                leave::leave(at.read_unaligned(), Reason::Passed);
            });
            send(m)
        })
    }
}

/// The same with a copy of the control data, at `to`.
///
/// # Safety
///
/// `m` is the program's message, and `to` is ours to write, aligned as control data is, and as long as that.
unsafe fn passing_by<R>(m: &msghdr, to: *mut u8, send: &mut impl FnMut(*const msghdr) -> R) -> R {
    let mut own = *m;
    // SAFETY: the program's control buffer has msg_controllen bytes; each_passed() stays within its copy.
    unsafe {
        to.copy_from_nonoverlapping(m.msg_control.cast(), m.msg_controllen);
        own.msg_control = to.cast();
        each_passed(&own, |at| at.write_unaligned(give::give(at.read_unaligned(), Reason::Passed)));
    }
    send(&own)
}

/// The same where the message is sent as it is, past us: what the process has in place of a connection goes with it.
///
/// # Safety
///
/// `m` is the program's message.
pub unsafe fn passing_unseen(m: &msghdr) {
    // SAFETY: by the contract.
    unsafe {
        if passes(m) {
            each_passed(m, |at| give::give_number(at.read_unaligned(), Reason::Passed));
        }
    }
}

/// Whether [`passing`] has anything to do for a message.
///
/// # Safety
///
/// `m` is the program's message.
#[inline]
pub unsafe fn passes(m: &msghdr) -> bool {
    let mut any = false;
    if m.msg_controllen > 0 && !m.msg_control.is_null() {
        // SAFETY: the program's message.
        unsafe { each_passed(m, |_| any = true) };
    }
    any
}

/// Calls `f` with the place of every descriptor in `m` that is a connection of ours. A header that is longer than what there is
/// the kernel refuses, and the message with it.
///
/// # Safety
///
/// The control buffer of `m` can be read; and written, where `f` does.
unsafe fn each_passed(m: &msghdr, mut f: impl FnMut(*mut c_int)) {
    // SAFETY: CMSG_* walk the control buffer within msg_controllen.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(m);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_SOCKET && (*c).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*c).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let room = m.msg_controllen - (c as usize - m.msg_control as usize);
                if (*c).cmsg_len as usize > room {
                    return;
                }
                for i in 0..bytes / size_of::<c_int>() {
                    let at = libc::CMSG_DATA(c).cast::<c_int>().add(i);
                    match fdtable::get(at.read_unaligned()) {
                        Entry::Conn(_) => f(at),
                        // The process that gets it waits by the kernel alone.
                        Entry::Epoll(i) => epoll::give_away(i),
                        Entry::Unconnected(_) => fdtable::no_more_alone(at.read_unaligned()),
                        _ => {}
                    }
                }
            }
            c = libc::CMSG_NXTHDR(m, c);
        }
    }
}

/// Becomes another program by `real`, which returns only if it could not.
pub fn executing<R>(real: impl FnOnce() -> R) -> R {
    // A child of vfork, which goes on beside its parent from here: nobody saw it start.
    if state::is_borrowed_memory() {
        fdtable::count_start();
    }
    exec::before();
    let failed = real();
    let errno = super::errno();
    exec::failed();
    super::fail(errno);
    failed
}

/// Starts another program by `real`.
fn spawning<R>(real: impl FnOnce() -> R) -> R {
    fdtable::count_start();
    exec::before_spawn();
    let result = real();
    fdtable::count_start();
    result
}

macro_rules! exec {
    ($how:ident: $($(#[$doc:meta])* $name:ident($($v:ident: $t:ty),*) -> $r:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        pub unsafe fn $name($($v: $t),*) -> $r {
            // SAFETY: the program's arguments.
            $how(|| unsafe { real::$name()($($v),*) })
        }
    )*};
}

exec! { executing:
    /// execve(2): what the new program inherits must be plain TCP.
    execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    /// execv(3).
    execv(path: *const c_char, argv: *const *const c_char) -> c_int;
    /// execvp(3).
    execvp(file: *const c_char, argv: *const *const c_char) -> c_int;
    /// execvpe(3).
    execvpe(file: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    /// fexecve(3).
    fexecve(fd: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    /// execveat(2).
    execveat(dir: c_int, path: *const c_char, argv: *const *const c_char, env: *const *const c_char, flags: c_int) -> c_int;
}

exec! { spawning:
    /// posix_spawn(3).
    posix_spawn(pid: *mut libc::pid_t, path: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    /// posix_spawnp(3).
    posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    /// system(3): glibc starts the shell inside itself.
    system(command: *const c_char) -> c_int;
    /// popen(3): as system(3).
    popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
}

macro_rules! pidfd {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        pub unsafe fn $name(
            pidfd: *mut c_int,
            path: *const c_char,
            fa: *const c_void,
            attr: *const c_void,
            argv: *const *const c_char,
            env: *const *const c_char,
        ) -> c_int {
            // SAFETY: the program's arguments.
            spawning(|| unsafe { real::$name().map_or(libc::ENOSYS, |f| f(pidfd, path, fa, attr, argv, env)) })
        }
    )*};
}

pidfd! {
    /// posix_spawn(3) of later C libraries, with a descriptor for the child.
    pidfd_spawn;
    /// The same with a search for the program.
    pidfd_spawnp;
}

/// posix_spawn_file_actions_adddup2(3): a connection is about to become somebody's standard input.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn adddup2(fa: *mut c_void, fd: c_int, new: c_int) -> c_int {
    fdtable::no_more_alone(fd);
    let fd = give::give(fd, Reason::Exec);
    // SAFETY: the program's arguments.
    unsafe { real::posix_spawn_file_actions_adddup2()(fa, fd, new) }
}

/// Before glibc writes to `fd` inside itself.
pub fn printing(fd: c_int) -> Result<(), i32> {
    match fdtable::conn(fd) {
        Some(_) => leave::leave_to_write(fd, Reason::Stdio),
        None => Ok(()),
    }
}

/// vdprintf(3): glibc writes inside itself.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn vdprintf(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int {
    if let Err(e) = printing(fd) {
        return super::fail(e) as c_int;
    }
    // SAFETY: the program's arguments.
    unsafe { real::vdprintf()(fd, format, args) }
}

/// vdprintf(3) under -D_FORTIFY_SOURCE.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, args: *mut c_void) -> c_int {
    if let Err(e) = printing(fd) {
        return super::fail(e) as c_int;
    }
    // SAFETY: the program's arguments.
    unsafe { real::__vdprintf_chk()(fd, flag, format, args) }
}

/// backtrace_symbols_fd(3): glibc writes inside itself.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn backtrace_symbols_fd(frames: *const *mut c_void, n: c_int, fd: c_int) {
    if printing(fd).is_ok() {
        // SAFETY: the program's arguments.
        unsafe { real::backtrace_symbols_fd()(frames, n, fd) }
    }
}
