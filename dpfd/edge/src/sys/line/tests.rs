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
