//! HTTP/1.1 for whoever asks, and for nobody alone: who sends slowly, takes no answer, or does nothing, keeps neither others from
//! theirs nor anything of this process for long. One thread, which never waits for one connection; each has one answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// How long a question may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the other end is heard after its answer: closing over what it sent would take the answer from it.
const GOODBYE: Duration = Duration::from_secs(1);
/// Without descriptors, nobody is let in for so long.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest question, bytes.
const LONGEST: usize = 8 << 10;
/// Reads and writes of one connection before others have their turn.
const TURN: usize = 16;

/// Where somebody may connect.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What somebody wants.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Without what stands behind a question mark.
    pub path: String,
}

/// An answer to one question.
pub struct Answer {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
}

/// Answers until the listener fails; says how. `most`: connections at a time, of which the oldest makes room. `answer` has all
/// questions of a moment at once.
pub fn serve(
    listener: &Listener,
    most: usize,
    mut answer: impl FnMut(&[Request]) -> Vec<Answer>,
) -> io::Error {
    let mut conns: Vec<Conn> = Vec::new();
    let mut shut_until = Instant::now();
    loop {
        let now = Instant::now();
        let is_open = now >= shut_until;
        let ends = conns.iter().map(|conn| conn.until).chain((!is_open).then_some(shut_until));
        let next = ends.min().map_or(PollTimeout::NONE, |end| until(now, end));
        let mut fds: Vec<PollFd> = conns.iter().map(Conn::wanted).collect();
        if is_open {
            fds.push(PollFd::new(listener.fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, next) {
            Err(nix::Error::EINTR) => continue,
            Err(errno) => return errno.into(),
            Ok(_) => {}
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        conns.iter_mut().zip(&ready).filter(|(_, ready)| **ready).for_each(|(conn, _)| conn.step());
        tell(&mut conns, &mut answer);
        conns.retain(|conn| !conn.is_over(Instant::now()));
        if is_open && ready.last() == Some(&true) {
            match listener.accept_all(&mut conns, most) {
                Ok(true) => {}
                Ok(false) => shut_until = Instant::now() + PAUSE,
                Err(error) => return error,
            }
        }
    }
}

/// Rounded up: one that ends in half a millisecond is not looked at before.
fn until(now: Instant, end: Instant) -> PollTimeout {
    let ms = end.saturating_duration_since(now).as_millis() + 1;
    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
}

/// Answers all whose questions are there.
fn tell(conns: &mut [Conn], answer: &mut impl FnMut(&[Request]) -> Vec<Answer>) {
    let (mut asking, mut requests) = (Vec::new(), Vec::new());
    for conn in conns {
        match conn.question() {
            Some(Ok(request)) => {
                asking.push(conn);
                requests.push(request);
            }
            Some(Err(status)) => conn.tell(&Answer { status, kind: "text/plain", body: String::new() }, true),
            None => {}
        }
    }
    if requests.is_empty() {
        return;
    }
    let answers = answer(&requests);
    for ((conn, request), answer) in asking.into_iter().zip(&requests).zip(&answers) {
        conn.tell(answer, request.method != "HEAD");
    }
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    /// Lets in who waits. False: there are no descriptors.
    fn accept_all(&self, conns: &mut Vec<Conn>, most: usize) -> io::Result<bool> {
        loop {
            let accepted = match self {
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
                Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => conns.extend(Conn::new(stream)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => return Ok(false),
                    Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP) => {
                        return Err(error)
                    }
                    // Of the connection, which went before it was let in.
                    _ => {}
                },
            }
            if conns.len() > most {
                conns.remove(0);
            }
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

enum Phase {
    /// What came of its question.
    Asking(Vec<u8>),
    /// Its answer, and how much of it is gone.
    Told(Vec<u8>, usize),
    /// It has its answer.
    Ending,
    Over,
}

struct Conn {
    stream: Stream,
    phase: Phase,
    until: Instant,
}

impl Conn {
    fn new(stream: Stream) -> Option<Conn> {
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
        .ok()?;
        Some(Conn { stream, phase: Phase::Asking(Vec::new()), until: Instant::now() + PATIENCE })
    }

    fn wanted(&self) -> PollFd<'_> {
        let flags = match self.phase {
            Phase::Told(..) => PollFlags::POLLOUT,
            _ => PollFlags::POLLIN,
        };
        PollFd::new(self.stream.fd(), flags)
    }

    fn is_over(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Over) || now >= self.until
    }

    /// As far as it goes without waiting.
    fn step(&mut self) {
        for _ in 0..TURN {
            let moved = match &mut self.phase {
                Phase::Asking(question) if question.len() >= LONGEST => return,
                Phase::Asking(question) => {
                    let mut bytes = [0; 2048];
                    self.stream.read(&mut bytes).inspect(|&len| question.extend_from_slice(&bytes[..len]))
                }
                Phase::Told(answer, gone) if *gone == answer.len() => {
                    self.phase = if self.stream.end().is_ok() { Phase::Ending } else { Phase::Over };
                    self.until = Instant::now() + GOODBYE;
                    continue;
                }
                Phase::Told(answer, gone) => self.stream.write(&answer[*gone..]).inspect(|&len| *gone += len),
                Phase::Ending => self.stream.read(&mut [0; 2048]),
                Phase::Over => return,
            };
            match moved {
                Ok(len) if len > 0 => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It says no more, and is to be answered what it has said.
                Ok(_) if self.question().is_some() => return,
                // The end.
                _ => self.phase = Phase::Over,
            }
        }
    }

    /// Its question, once that is whole; what is wrong with it.
    fn question(&self) -> Option<Result<Request, &'static str>> {
        let Phase::Asking(bytes) = &self.phase else { return None };
        let ends = |mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
        if ends(b"\r\n\r\n") || ends(b"\n\n") {
            return Some(request(bytes).ok_or("400 Bad Request"));
        }
        (bytes.len() >= LONGEST).then_some(Err("431 Request Header Fields Too Large"))
    }

    fn tell(&mut self, Answer { status, kind, body }: &Answer, whole: bool) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let answer = if whole { [head.as_bytes(), body.as_bytes()].concat() } else { head.into_bytes() };
        self.phase = Phase::Told(answer, 0);
        self.until = Instant::now() + PATIENCE;
        self.step();
    }
}

/// The first line of a question.
fn request(bytes: &[u8]) -> Option<Request> {
    let line = std::str::from_utf8(bytes.split(|&byte| byte == b'\n').next()?).ok()?;
    let mut words = line.trim_end().split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() || method.is_empty() {
        return None;
    }
    let path = target.split('?').next().unwrap_or_default();
    Some(Request { method: method.into(), path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_question_is_read() {
        let of = |line: &str| request(line.as_bytes()).map(|r| (r.method, r.path));
        let is = |method: &str, path: &str| Some((method.to_owned(), path.to_owned()));
        assert_eq!(of("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"), is("GET", "/metrics"));
        assert_eq!(of("HEAD / HTTP/1.0\n\n"), is("HEAD", "/"));
        for wrong in
            ["", "\r\n\r\n", "GET /", "GET / HTTP/2\r\n\r\n", "GET / x HTTP/1.1\r\n\r\n", " / HTTP/1.1\n\n"]
        {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }
}
