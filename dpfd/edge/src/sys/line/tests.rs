use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{symlink, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dp-line-{name}-{}", std::process::id()))
}

fn c(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

fn pipe() -> (File, File) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1]))
    }
}

/// The signal's ordinary action is the end of the process, which the test runner would notice; it ignores SIGPIPE, though.
fn with_default_action(signal: i32, f: impl FnOnce()) {
    // SAFETY: the action of one signal, which nothing else here raises.
    let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
    f();
    // SAFETY: as above.
    unsafe { libc::signal(signal, before) };
}

fn at_once(f: impl FnOnce() -> Result<(), i32>) -> Result<(), i32> {
    let start = Instant::now();
    let result = f();
    assert!(start.elapsed() < Duration::from_secs(5));
    result
}

#[test]
fn a_file_is_made_for_its_owner_and_lines_come_to_its_end() {
    let path = temporary("file");
    for text in ["one\n", "two\n"] {
        let fd = open(&c(&path)).unwrap();
        assert_eq!(write(fd, Kind::File, text.as_bytes()), Ok(()));
        raw::close(fd);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let link = temporary("link");
    symlink(&path, &link).unwrap();
    assert_eq!(open(&c(&link)), Err(libc::ELOOP));
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_full_pipe_is_not_waited_for_and_one_without_a_reader_raises_nothing() {
    let (mut reader, mut writer) = pipe();
    assert_eq!(at_once(|| write(writer.as_raw_fd(), Kind::Pipe, b"a line\n")), Ok(()));
    let mut seen = [0; 7];
    reader.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"a line\n");
    writer.write_all(&vec![0; 64 << 10]).unwrap();
    assert_eq!(at_once(|| write(writer.as_raw_fd(), Kind::Pipe, b"a line\n")), Err(libc::EAGAIN));
    assert_eq!(write_if_writable(writer.as_raw_fd(), b"a line\n"), Err(libc::EAGAIN));
    drop(reader);
    with_default_action(libc::SIGPIPE, || {
        assert_eq!(write(writer.as_raw_fd(), Kind::Pipe, b"a line\n"), Err(libc::EPIPE));
    });
}

#[test]
fn a_signal_that_the_program_blocks_and_has_already_stays() {
    let (reader, writer) = pipe();
    drop(reader);
    let blocked = raw::block_signals();
    // SAFETY: of this thread.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
    assert_eq!(write(writer.as_raw_fd(), Kind::Pipe, b"a line\n"), Err(libc::EPIPE));
    assert_ne!(pending() & bit(libc::SIGPIPE), 0);
    take(bit(libc::SIGPIPE));
    assert_eq!(write(writer.as_raw_fd(), Kind::Pipe, b"a line\n"), Err(libc::EPIPE));
    assert_eq!(pending() & bit(libc::SIGPIPE), 0);
    raw::set_blocked_signals(blocked);
}

/// How a child process ends that may not ask which signals have come, and does `f` with these signals blocked.
fn without_asking(blocked: u64, f: impl FnOnce() -> bool) -> libc::c_int {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_rt_sigpending as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let mut status = -1;
    // SAFETY: the child makes system calls, and nothing else, until it ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0;
            raw::set_blocked_signals(blocked);
            libc::_exit(i32::from(!(done && f())));
        }
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    status
}

#[test]
fn which_signals_have_come_is_asked_only_where_the_kind_of_file_raises_one_that_is_blocked() {
    let path = temporary("asked");
    let (file, pipe) = (File::create(&path).unwrap(), pipe());
    let null = File::options().write(true).open("/dev/null").unwrap();
    let (line, pipe_signal, file_signal) = (b"a line\n", bit(libc::SIGPIPE), bit(libc::SIGXFSZ));
    let ends = |fd: i32, kind, blocked| without_asking(blocked, || write(fd, kind, line).is_ok());
    assert_eq!(ends(null.as_raw_fd(), Kind::Device, pipe_signal | file_signal), 0);
    assert_eq!(ends(file.as_raw_fd(), Kind::File, pipe_signal), 0);
    assert_eq!(libc::WTERMSIG(ends(file.as_raw_fd(), Kind::File, file_signal)), libc::SIGSYS);
    assert_eq!(ends(pipe.1.as_raw_fd(), Kind::Pipe, file_signal), 0);
    assert_eq!(libc::WTERMSIG(ends(pipe.1.as_raw_fd(), Kind::Pipe, pipe_signal)), libc::SIGSYS);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn sockets_take_whole_lines_or_none() {
    let (left, right) = UnixStream::pair().unwrap();
    assert_eq!(at_once(|| write(left.as_raw_fd(), Kind::Socket, b"a line\n")), Ok(()));
    let full = |fd| (0..100_000).map(|_| write(fd, Kind::Socket, &[b'x'; 400])).find(Result::is_err);
    assert_eq!(full(left.as_raw_fd()), Some(Err(libc::EAGAIN)));
    drop(right);
    with_default_action(libc::SIGPIPE, || {
        assert!(write(left.as_raw_fd(), Kind::Socket, b"a line\n").is_err());
    });
}

/// A terminal: the end that a terminal's program reads, and the one that programs in it write to.
fn terminal() -> (File, File) {
    let nothing = std::ptr::null_mut();
    let (mut reads, mut writes) = (-1, -1);
    // SAFETY: room for two descriptors, which nobody else has; no name, and the usual settings and size.
    unsafe {
        assert_eq!(
            libc::openpty(&raw mut reads, &raw mut writes, nothing, nothing.cast(), nothing.cast()),
            0
        );
        (File::from_raw_fd(reads), File::from_raw_fd(writes))
    }
}

#[test]
fn a_terminal_that_nobody_reads_is_not_waited_for_and_its_open_file_stays_as_it_is() {
    let (mut reader, writer) = terminal();
    let meta = |fd| super::super::files::meta_of(fd).unwrap().file;
    let write_again = move |length: usize| {
        let line = [vec![b'x'; length - 1].as_slice(), b"\n"].concat();
        let fd = reopen(writer.as_raw_fd()).unwrap();
        assert_eq!(meta(fd), meta(writer.as_raw_fd()));
        let result = write(fd, Kind::Device, &line);
        raw::close(fd);
        assert!(!raw::is_nonblocking(writer.as_raw_fd()));
        result
    };
    assert_eq!(write_again(100), Ok(()));
    let mut seen = [0; 101];
    reader.read_exact(&mut seen).unwrap();
    assert!(seen.ends_with(b"x\r\n"));
    // It has room in pieces of 256 bytes, so that some is left which is not enough for a line.
    let (tell, told) = std::sync::mpsc::channel();
    let fills = std::thread::spawn(move || {
        let lengths = [100].into_iter().chain(std::iter::repeat_n(400, 1000));
        tell.send(lengths.map(write_again).find(|result| *result == Err(libc::EAGAIN))).unwrap();
    });
    let full = told.recv_timeout(Duration::from_secs(5));
    // Ends a write that waits.
    drop(reader);
    fills.join().unwrap();
    assert_eq!(full, Ok(Some(Err(libc::EAGAIN))));
}

#[test]
fn datagrams_go_to_a_socket_by_its_path() {
    let path = temporary("socket");
    let receiver = UnixDatagram::bind(&path).unwrap();
    let fd = datagrams_to(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: just opened, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    assert_eq!(write(fd.as_raw_fd(), Kind::Socket, b"A=1\n"), Ok(()));
    let mut seen = [0; 16];
    assert_eq!(receiver.recv(&mut seen).unwrap(), 4);
    drop(receiver);
    assert_eq!(write(fd.as_raw_fd(), Kind::Socket, b"A=1\n"), Err(libc::ECONNREFUSED));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(datagrams_to(path.as_os_str().as_encoded_bytes()), Err(libc::ENOENT));
    assert_eq!(datagrams_to(&[b'x'; 108]), Err(libc::ENAMETOOLONG));
}

#[test]
fn kinds_are_told_apart_by_their_mode() {
    let path = temporary("kinds");
    let file = File::options().create(true).append(true).mode(0o600).open(&path).unwrap();
    let (reader, _writer) = pipe();
    let (socket, _) = UnixStream::pair().unwrap();
    let null = File::open("/dev/null").unwrap();
    let fds = [file.as_raw_fd(), reader.as_raw_fd(), socket.as_raw_fd(), null.as_raw_fd()];
    let kinds = fds.map(|fd| Kind::of(super::super::files::meta_of(fd).unwrap().mode));
    assert_eq!(kinds, [Kind::File, Kind::Pipe, Kind::Socket, Kind::Device]);
    std::fs::remove_file(&path).unwrap();
}
