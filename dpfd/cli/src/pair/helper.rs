//! Another process of this program, which is told over a socket what to do: a job at a time, in JSON, with descriptors.
#![expect(unsafe_code, reason = "descriptors that come beside a message")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    recvmsg, sendmsg, socketpair, AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag,
    SockType,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoints::waited;
use super::Result;

/// The verb that [`serve`]s; its standard input is the way to the first process.
const VERB: &str = "peer";
/// A message of the socket; a job or an answer is shorter.
const LONGEST: usize = 4096;
const GONE: &str = "the other process is gone";
/// What came, if it was not the end.
type Received<T> = Result<Option<(T, Vec<OwnedFd>)>>;

/// The other process, seen from the first.
pub struct Helper {
    child: Child,
    control: OwnedFd,
}

impl Helper {
    /// Starts it.
    pub fn start() -> Result<Helper> {
        let (control, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let child = Command::new("/proc/self/exe")
            .arg(VERB)
            .stdin(Stdio::from(theirs))
            .spawn()
            .map_err(|e| format!("/proc/self/exe: {e}; the second process cannot be started"))?;
        Ok(Helper { child, control })
    }

    pub fn tell<J: Serialize>(&self, job: &J, fds: &[OwnedFd]) -> Result<()> {
        send(&self.control, job, fds)
    }

    /// Waits for what it answers.
    pub fn answer<A: for<'a> Deserialize<'a>>(&self) -> Result<A> {
        let (answer, _) = receive::<std::result::Result<A, String>>(&self.control)?.ok_or(GONE)?;
        Ok(answer?)
    }

    /// The next answer, whatever it is; none if it is gone.
    pub fn heard(&self) -> Result<Option<std::result::Result<Value, String>>> {
        Ok(receive(&self.control)?.map(|(said, _)| said))
    }

    /// Why this process gave up, if it did and said so.
    pub fn last_words(&self) -> Option<String> {
        loop {
            let said = receive_now::<std::result::Result<Value, String>>(&self.control);
            if let Err(words) = said.ok()??.0 {
                return Some(words);
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Readable when there is an answer, and when it is gone.
impl AsFd for Helper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It ends by itself when the socket does, unless it spins on an edge that nobody feeds any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asked while spinning: an error when the other process is gone. The second process need not ask, the
/// kernel ends it with the first.
pub fn alive() -> io::Result<()> {
    use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};
    // Looks at a child that has ended, and leaves it to be waited for.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let how = match waitid(Id::All, flags) {
        Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(()),
        Ok(WaitStatus::Exited(_, status)) => format!("it ended with status {status}"),
        Ok(WaitStatus::Signaled(_, signal, _)) => format!("{signal} ended it"),
        Ok(other) => format!("{other:?}"),
        Err(e) => e.to_string(),
    };
    Err(io::Error::other(format!("the second process is gone: {how}")))
}

/// The way back to the first process.
pub struct Control(OwnedFd);

impl Control {
    pub fn say<A: Serialize>(&self, answer: A) -> Result<()> {
        send(&self.0, &Ok::<A, String>(answer), &[])
    }

    /// Waits for what else it says, in the middle of a job, for about so many seconds: whoever serves another node is there
    /// still when that node is gone.
    pub fn hear<J: for<'a> Deserialize<'a>>(&self, most: u32) -> Result<J> {
        let mut silence = 0;
        loop {
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], PollTimeout::from(1000u16)) {
                // Also the clock that ticks each second.
                Ok(0) | Err(nix::Error::EINTR) => waited(&mut silence, most)?,
                Ok(_) => return Ok(receive(&self.0)?.ok_or(GONE)?.0),
                Err(e) => return Err(format!("poll: {e}").into()),
            }
        }
    }
}

/// The other process: does what it is told until the first is gone. That it could not is its last answer.
pub fn serve<J: for<'a> Deserialize<'a>>(
    mut obey: impl FnMut(&Control, J, Vec<OwnedFd>) -> Result<()>,
) -> ExitCode {
    // Also when it spins, and cannot see the socket end.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned().map(Control) else { return ExitCode::FAILURE };
    loop {
        let done = match receive(&control.0) {
            Ok(Some((job, fds))) => obey(&control, job, fds),
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            let _ = send(&control.0, &Err::<(), String>(error.to_string()), &[]);
            return ExitCode::FAILURE;
        }
    }
}

fn send<T: Serialize>(control: &OwnedFd, what: &T, fds: &[OwnedFd]) -> Result<()> {
    let text = serde_json::to_vec(what)?;
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(control.as_raw_fd(), &[IoSlice::new(&text)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

fn receive<T: for<'a> Deserialize<'a>>(control: &OwnedFd) -> Received<T> {
    receive_with(control, MsgFlags::empty())
}

fn receive_now<T: for<'a> Deserialize<'a>>(control: &OwnedFd) -> Received<T> {
    receive_with(control, MsgFlags::MSG_DONTWAIT)
}

fn receive_with<T: for<'a> Deserialize<'a>>(control: &OwnedFd, flags: MsgFlags) -> Received<T> {
    let mut text = [0; LONGEST];
    let mut space = nix::cmsg_space!([RawFd; 8]);
    let mut parts = [IoSliceMut::new(&mut text)];
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
    let got = loop {
        // A process that was stopped and goes on is interrupted, too.
        match recvmsg::<()>(control.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: the kernel has just put these descriptors here, for us alone.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    match got.bytes {
        0 => Ok(None),
        n => Ok(Some((serde_json::from_slice(&text[..n])?, fds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_in_the_middle_of_a_job_is_not_waited_for_for_ever() {
        let (first, second) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let control = Control(second);
        send(&first, &7, &[]).unwrap();
        assert_eq!(control.hear::<u32>(1).unwrap(), 7);
        let silent = control.hear::<u32>(1).unwrap_err().to_string();
        assert!(silent.contains("nothing came or went"), "{silent}");
        drop(first);
        assert_eq!(control.hear::<u32>(1).unwrap_err().to_string(), GONE);
    }
}
