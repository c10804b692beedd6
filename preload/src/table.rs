//! THE table: every symbol the shim replaces, one line each. A test compares it with the library's
//! exports and with glibc's.
//!
//! [`crate::real`] makes the next definitions of it, which everybody calls, and `hooks` the symbols themselves, which
//! call what stands behind the `=`.
//!
//! The forms. `quick` calls cannot sleep: they go through redhook. `sleep` calls can, and may be cancelled
//! by pthread_cancel, whose unwinding must pass through the hook: redhook's `catch_unwind` would abort the
//! program there, so they are plain `extern "C-unwind"` functions. `fclose` and `vdprintf` are: they write inside themselves. So is
//! `epoll_ctl`, which event loops call as often as they wait: a signal handler may end its thread there. And
//! `__register_atfork`, which other libraries' constructors call before redhook's own has run: it hands such calls on. A `twin`
//! is another name of the call above it: numbers have 64 bits here, with and without the 64 in the name. A `guest` belongs to a
//! library that the program may not have: it is looked for when it is called, and may not be there. A `sleep` call that an older
//! C library lacks fails with ENOSYS: a program that looks for it finds ours.

macro_rules! table {
    ($each:ident) => {
        $each! {
            // bytes in
            sleep fn read(fd: c_int, buf: *mut c_void, n: size_t) -> ssize_t = ops::recv::read;
            twin fn __read(fd: c_int, buf: *mut c_void, n: size_t) -> ssize_t = ops::recv::read;
            sleep fn recv(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int) -> ssize_t = ops::recv::recv;
            twin fn __recv(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int) -> ssize_t = ops::recv::recv;
            sleep fn recvfrom(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> ssize_t = ops::recv::recvfrom;
            sleep fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t = ops::recv::recvmsg;
            sleep fn recvmmsg(fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int, timeout: *mut timespec) -> c_int = ops::recv::recvmmsg;
            sleep fn readv(fd: c_int, iov: *const iovec, n: c_int) -> ssize_t = ops::recv::readv;
            sleep fn preadv2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t = ops::recv::preadv2;
            twin fn preadv64v2(fd: c_int, iov: *const iovec, n: c_int, at: off64_t, flags: c_int) -> ssize_t = ops::recv::preadv2;
            sleep fn __read_chk(fd: c_int, buf: *mut c_void, n: size_t, room: size_t) -> ssize_t = ops::recv::read_chk;
            sleep fn __recv_chk(fd: c_int, buf: *mut c_void, n: size_t, room: size_t, flags: c_int) -> ssize_t = ops::recv::recv_chk;
            sleep fn __recvfrom_chk(fd: c_int, buf: *mut c_void, n: size_t, room: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> ssize_t = ops::recv::recvfrom_chk;
            // bytes out
            sleep fn write(fd: c_int, buf: *const c_void, n: size_t) -> ssize_t = ops::send::write;
            twin fn __write(fd: c_int, buf: *const c_void, n: size_t) -> ssize_t = ops::send::write;
            sleep fn send(fd: c_int, buf: *const c_void, n: size_t, flags: c_int) -> ssize_t = ops::send::send;
            twin fn __send(fd: c_int, buf: *const c_void, n: size_t, flags: c_int) -> ssize_t = ops::send::send;
            sleep fn sendto(fd: c_int, buf: *const c_void, n: size_t, flags: c_int, to: *const sockaddr, len: socklen_t) -> ssize_t = ops::send::sendto;
            sleep fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t = ops::send::sendmsg;
            sleep fn sendmmsg(fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int = ops::send::sendmmsg;
            twin fn __sendmmsg(fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int = ops::send::sendmmsg;
            sleep fn writev(fd: c_int, iov: *const iovec, n: c_int) -> ssize_t = ops::send::writev;
            sleep fn pwritev2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t = ops::send::pwritev2;
            twin fn pwritev64v2(fd: c_int, iov: *const iovec, n: c_int, at: off64_t, flags: c_int) -> ssize_t = ops::send::pwritev2;
            sleep fn sendfile(out: c_int, from: c_int, offset: *mut off_t, n: size_t) -> ssize_t = ops::copy::sendfile;
            twin fn sendfile64(out: c_int, from: c_int, offset: *mut off64_t, n: size_t) -> ssize_t = ops::copy::sendfile;
            sleep fn splice(from: c_int, off_in: *mut off64_t, out: c_int, off_out: *mut off64_t, n: size_t, flags: c_uint) -> ssize_t = ops::copy::splice;
            // connections
            sleep fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = ops::open::connect;
            twin fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = ops::open::connect;
            sleep fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int = ops::open::accept;
            sleep fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = ops::open::accept4;
            quick fn listen(fd: c_int, backlog: c_int) -> c_int = ops::open::listen;
            quick fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = ops::open::socket;
            twin fn __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = ops::open::socket;
            quick fn shutdown(fd: c_int, how: c_int) -> c_int = ops::open::shutdown;
            quick fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int = ops::ask::getpeername;
            // descriptors
            sleep fn close(fd: c_int) -> c_int = ops::fd::close;
            twin fn __close(fd: c_int) -> c_int = ops::fd::close;
            quick fn dup(fd: c_int) -> c_int = ops::fd::dup;
            quick fn dup2(old: c_int, new: c_int) -> c_int = ops::fd::dup2;
            twin fn __dup2(old: c_int, new: c_int) -> c_int = ops::fd::dup2;
            quick fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = ops::fd::dup3;
            sleep fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = ops::fd::close_range;
            twin fn closefrom(first: c_int) -> () = ops::fd::closefrom;
            sleep fn fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int = ops::fd::fcntl;
            twin fn fcntl64(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int = ops::fd::fcntl;
            twin fn __fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int = ops::fd::fcntl;
            sleep fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int = ops::fd::ioctl;
            quick fn sockatmark(fd: c_int) -> c_int = ops::fd::sockatmark;
            quick fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int = ops::ask::setsockopt;
            quick fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int = ops::ask::getsockopt;
            quick fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = ops::leave::fdopen;
            twin fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = ops::leave::fdopen;
            sleep fn fclose(f: *mut FILE) -> c_int = ops::leave::fclose;
            twin fn _IO_fclose(f: *mut FILE) -> c_int = ops::leave::fclose;
            sleep fn freopen(path: *const c_char, mode: *const c_char, f: *mut FILE) -> *mut FILE = ops::leave::freopen;
            sleep fn freopen64(path: *const c_char, mode: *const c_char, f: *mut FILE) -> *mut FILE = ops::leave::freopen64;
            // other programs
            quick fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::execve;
            quick fn execv(path: *const c_char, argv: *const *const c_char) -> c_int = ops::leave::execv;
            quick fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int = ops::leave::execvp;
            quick fn execvpe(file: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::execvpe;
            quick fn fexecve(fd: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::fexecve;
            quick fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::posix_spawn;
            quick fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::posix_spawnp;
            quick fn posix_spawn_file_actions_adddup2(fa: *mut c_void, fd: c_int, new: c_int) -> c_int = ops::leave::adddup2;
            sleep fn execveat(dir: c_int, path: *const c_char, argv: *const *const c_char, env: *const *const c_char, flags: c_int) -> c_int = ops::leave::execveat;
            guest fn pidfd_spawn(pidfd: *mut c_int, path: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::pidfd_spawn;
            guest fn pidfd_spawnp(pidfd: *mut c_int, file: *const c_char, fa: *const c_void, attr: *const c_void, argv: *const *const c_char, env: *const *const c_char) -> c_int = ops::leave::pidfd_spawnp;
            sleep fn system(command: *const c_char) -> c_int = ops::leave::system;
            quick fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE = ops::leave::popen;
            twin fn _IO_popen(command: *const c_char, mode: *const c_char) -> *mut FILE = ops::leave::popen;
            sleep fn fork() -> libc::pid_t = ops::fork::fork;
            twin fn __fork() -> libc::pid_t = ops::fork::fork;
            sleep fn daemon(nochdir: c_int, noclose: c_int) -> c_int = ops::fork::daemon;
            guest fn forkpty(end: *mut c_int, name: *mut c_char, terminal: *const c_void, size: *const c_void) -> libc::pid_t = ops::fork::forkpty;
            sleep fn _Fork() -> libc::pid_t = ops::fork::bare_fork;
            sleep fn clone(run: usize, stack: *mut c_void, flags: c_int, with: *mut c_void, ptid: usize, tls: usize, ctid: usize) -> c_int = ops::fork::clone;
            twin fn __clone(run: usize, stack: *mut c_void, flags: c_int, with: *mut c_void, ptid: usize, tls: usize, ctid: usize) -> c_int = ops::fork::clone;
            sleep fn __register_atfork(prepare: usize, parent: usize, child: usize, dso: *mut c_void) -> c_int = ops::fork::register_atfork;
            // input and output where no hook is
            guest fn io_uring_setup(entries: c_uint, params: *mut Params) -> c_int = ops::ring::io_uring_setup;
            guest fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int = ops::ring::io_uring_queue_init;
            guest fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut Params) -> c_int = ops::ring::io_uring_queue_init_params;
            guest fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut Params, mem: *mut c_void, size: size_t) -> c_int = ops::ring::io_uring_queue_init_mem;
            guest fn io_uring_queue_init_try_nosqarr(entries: c_uint, ring: *mut c_void, params: *mut Params) -> c_int = ops::ring::io_uring_queue_init_try_nosqarr;
            guest fn io_uring_queue_mmap(fd: c_int, params: *mut Params, ring: *mut c_void) -> c_int = ops::ring::io_uring_queue_mmap;
            guest fn io_uring_submit(ring: *mut Ring) -> c_int = ops::ring::io_uring_submit;
            guest fn io_uring_submit_and_wait(ring: *mut Ring, n: c_uint) -> c_int = ops::ring::io_uring_submit_and_wait;
            guest fn io_uring_submit_and_get_events(ring: *mut Ring) -> c_int = ops::ring::io_uring_submit_and_get_events;
            guest fn io_uring_submit_and_wait_timeout(ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, mask: *mut sigset_t) -> c_int = ops::ring::io_uring_submit_and_wait_timeout;
            guest fn io_uring_submit_and_wait_min_timeout(ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, least: c_uint, mask: *mut sigset_t) -> c_int = ops::ring::io_uring_submit_and_wait_min_timeout;
            guest fn io_uring_submit_and_wait_reg(ring: *mut Ring, cqe: *mut c_void, n: c_uint, index: c_int) -> c_int = ops::ring::io_uring_submit_and_wait_reg;
            guest fn io_uring_wait_cqes(ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, mask: *mut sigset_t) -> c_int = ops::ring::io_uring_wait_cqes;
            guest fn io_uring_wait_cqe_timeout(ring: *mut Ring, cqe: *mut c_void, timeout: *mut c_void) -> c_int = ops::ring::io_uring_wait_cqe_timeout;
            guest fn __io_uring_get_cqe(ring: *mut Ring, cqe: *mut c_void, submit: c_uint, n: c_uint, mask: *mut sigset_t) -> c_int = ops::ring::__io_uring_get_cqe;
            guest fn io_uring_enter(fd: c_uint, submit: c_uint, n: c_uint, flags: c_uint, mask: *mut sigset_t) -> c_int = ops::ring::io_uring_enter;
            guest fn io_uring_enter2(fd: c_uint, submit: c_uint, n: c_uint, flags: c_uint, mask: *mut c_void, size: size_t) -> c_int = ops::ring::io_uring_enter2;
            guest fn io_uring_register(fd: c_uint, number: c_uint, arg: *const c_void, n: c_uint) -> c_int = ops::ring::io_uring_register;
            guest fn io_uring_register_files(ring: *mut Ring, files: *const c_int, n: c_uint) -> c_int = ops::ring::io_uring_register_files;
            guest fn io_uring_register_files_tags(ring: *mut Ring, files: *const c_int, tags: *const u64, n: c_uint) -> c_int = ops::ring::io_uring_register_files_tags;
            guest fn io_uring_register_files_update(ring: *mut Ring, at: c_uint, files: *const c_int, n: c_uint) -> c_int = ops::ring::io_uring_register_files_update;
            guest fn io_uring_register_files_update_tag(ring: *mut Ring, at: c_uint, files: *const c_int, tags: *const u64, n: c_uint) -> c_int = ops::ring::io_uring_register_files_update_tag;
            guest fn io_submit(context: *mut c_void, n: c_long, list: *const *const Iocb) -> c_int = ops::aside::io_submit;
            guest fn aio_read(a: *mut libc::aiocb) -> c_int = ops::aside::aio_read;
            twin fn aio_read64(a: *mut libc::aiocb) -> c_int = ops::aside::aio_read;
            guest fn aio_write(a: *mut libc::aiocb) -> c_int = ops::aside::aio_write;
            twin fn aio_write64(a: *mut libc::aiocb) -> c_int = ops::aside::aio_write;
            guest fn lio_listio(mode: c_int, list: *const *mut libc::aiocb, n: c_int, event: *mut c_void) -> c_int = ops::aside::lio_listio;
            twin fn lio_listio64(mode: c_int, list: *const *mut libc::aiocb, n: c_int, event: *mut c_void) -> c_int = ops::aside::lio_listio;
            sleep fn syscall(n: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long = ops::raw::syscall;
            sleep fn vdprintf(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int = ops::leave::vdprintf;
            sleep fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, args: *mut c_void) -> c_int = ops::leave::vdprintf_chk;
            sleep fn backtrace_symbols_fd(frames: *const *mut c_void, n: c_int, fd: c_int) -> () = ops::leave::backtrace_symbols_fd;
            twin fn __backtrace_symbols_fd(frames: *const *mut c_void, n: c_int, fd: c_int) -> () = ops::leave::backtrace_symbols_fd;
            // what a process forbids itself
            sleep fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int = ops::sandbox::prctl;
            quick fn setrlimit(what: c_uint, limit: *const libc::rlimit) -> c_int = ops::sandbox::setrlimit;
            twin fn setrlimit64(what: c_uint, limit: *const libc::rlimit) -> c_int = ops::sandbox::setrlimit;
            quick fn prlimit(pid: libc::pid_t, what: c_uint, limit: *const libc::rlimit, old: *mut libc::rlimit) -> c_int = ops::sandbox::prlimit;
            twin fn prlimit64(pid: libc::pid_t, what: c_uint, limit: *const libc::rlimit, old: *mut libc::rlimit) -> c_int = ops::sandbox::prlimit;
            // signals
            sleep fn sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int = signals::set;
            twin fn __sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int = signals::set;
            sleep fn signal(number: c_int, handler: usize) -> usize = signals::signal;
            sleep fn bsd_signal(number: c_int, handler: usize) -> usize = signals::bsd_signal;
            sleep fn ssignal(number: c_int, handler: usize) -> usize = signals::ssignal;
            sleep fn sysv_signal(number: c_int, handler: usize) -> usize = signals::sysv_signal;
            sleep fn __sysv_signal(number: c_int, handler: usize) -> usize = signals::sysv_signal_too;
            sleep fn sigset(number: c_int, handler: usize) -> usize = signals::sigset;
            // waiting
            sleep fn poll(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int) -> c_int = ops::wait::poll;
            twin fn __poll(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int) -> c_int = ops::wait::poll;
            sleep fn ppoll(fds: *mut pollfd, n: libc::nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = ops::wait::ppoll;
            sleep fn __poll_chk(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int, room: size_t) -> c_int = ops::wait::poll_chk;
            sleep fn __ppoll_chk(fds: *mut pollfd, n: libc::nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int = ops::wait::ppoll_chk;
            sleep fn select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval) -> c_int = ops::select::select;
            twin fn __select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval) -> c_int = ops::select::select;
            sleep fn pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int = ops::select::pselect;
            quick fn epoll_create(size: c_int) -> c_int = ops::wait::epoll_create;
            quick fn epoll_create1(flags: c_int) -> c_int = ops::wait::epoll_create1;
            sleep fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int = ops::wait::epoll_ctl;
            sleep fn epoll_wait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int = ops::wait::epoll_wait;
            sleep fn epoll_pwait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int = ops::wait::epoll_pwait;
            sleep fn epoll_pwait2(ep: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = ops::wait::epoll_pwait2;
        }
    };
}
pub(crate) use table;
