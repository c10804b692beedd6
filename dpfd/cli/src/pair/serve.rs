//! `dp bench serve`: what the second process does on one machine, for a first one on another node.
//!
//! A process of its own does the work, as on one machine, so that what goes wrong in it is over with it; this one hands on what
//! is said. It serves one at a time.
//!
//! ```text
//!   dp bench --node 2 --> endpoint --> gateway ==|==> gateway --> endpoint 1990, this process <--> dp peer
//!                     --> endpoint of a way -----|----------------------------------------------> its other end
//! ```

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Endpoint, Error, Nid};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde_json::Value;

use super::helper::Helper;
use super::line::{Answer, Call, Say, LONGEST, POOL, VERSION};
use super::peer::Job;
use super::routes::{gateway, SERVE};
use super::Result;
use crate::signals;

/// Whoever says nothing for so long, and is owed nothing, is taken to be gone.
const IDLE: Duration = Duration::from_secs(60);
/// How long a signal that came just before a wait may go unheard.
const UNHEARD: Duration = Duration::from_secs(1);
/// Answers that are to come from the helper: no measurement waits for more than two. Of thousands, those here and there would
/// fill the socket, and the two processes wait for each other.
const MOST_OWED: u32 = 8;
const OTHER_VERSION: &str =
    "what was asked is not understood here; measure with the same version of dp on both nodes";

/// Serves at this number until a signal comes.
pub fn serve(number: Dpid) -> ExitCode {
    if let Err(code) = crate::check_environment("bench") {
        return code;
    }
    let why = match Server::open(number).and_then(|mut server| server.run()) {
        Ok(signal) => signals::die(signal),
        Err(why) => why,
    };
    eprintln!("dp bench: {why}");
    ExitCode::FAILURE
}

struct Server {
    endpoint: Endpoint,
    nid: Nid,
    session: Option<Session>,
}

/// Who is served.
struct Session {
    number: u64,
    with: Addr,
    helper: Helper,
    owed: Owed,
    last: Instant,
}

/// What a session still waits for: words from its helper, and words to it.
#[derive(Default)]
struct Owed {
    /// Answers from the helper.
    answers: u32,
    /// Words to go on, to it.
    goes: u32,
}

impl Owed {
    /// Whether this may be asked, too. A word to go on has no answer by which it would be counted, and would fill the socket as
    /// well; so each belongs to a task that waits for it.
    fn add(&mut self, job: &Job) -> bool {
        self.answers += job.answers();
        self.goes += u32::from(job.is_to_go_on());
        if let Job::Go = job {
            let Some(rest) = self.goes.checked_sub(1) else { return false };
            self.goes = rest;
        }
        self.answers <= MOST_OWED
    }
}

impl Server {
    fn open(number: Dpid) -> Result<Server> {
        let nid = gateway()?.nid;
        let endpoint = Endpoint::open_on(Driver::User, number).map_err(|error| match error {
            Error::InUse(_) => format!("{error}; --dpid serves at another number"),
            error => error.to_string(),
        })?;
        endpoint.pool(POOL)?;
        endpoint.set_nonblocking(true)?;
        signals::watch();
        let place = if number == SERVE { nid.to_string() } else { format!("{nid}/{number}") };
        eprintln!("dp bench: serving; on another node: dp bench lat --node {place}");
        Ok(Server { endpoint, nid, session: None })
    }

    fn run(&mut self) -> Result<nix::sys::signal::Signal> {
        loop {
            if let Some(signal) = signals::caught() {
                return Ok(signal);
            }
            // On return from a receive in vain the descriptor tells of the next message. What is longer than any call is not
            // looked at.
            let got = self.endpoint.recv().map(|message| {
                let text = (message.len() <= LONGEST).then(|| message.to_vec());
                (text.unwrap_or_default(), message.from())
            });
            let patience = match got {
                Ok((text, from)) => {
                    self.hear(&text, from);
                    // As long as others say something, too, the helper's answers are handed on.
                    Duration::ZERO
                }
                Err(Error::WouldBlock | Error::Interrupted) => UNHEARD,
                Err(error) => return Err(error.into()),
            };
            self.wait(patience)?;
        }
    }

    /// Until a message, an answer of the helper, which is handed on, a signal, or for so long. Who is idle is not served any more
    /// then.
    fn wait(&mut self, patience: Duration) -> Result<()> {
        let mut both = vec![PollFd::new(self.endpoint.as_fd(), PollFlags::POLLIN)];
        both.extend(
            self.session.iter().map(|session| PollFd::new(session.helper.as_fd(), PollFlags::POLLIN)),
        );
        match poll(&mut both, PollTimeout::try_from(patience)?) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(format!("poll: {e}").into()),
        }
        if both.get(1).is_some_and(|helper| helper.any().unwrap_or(false)) {
            self.hand_on();
        }
        if self
            .session
            .as_ref()
            .is_some_and(|session| session.owed.answers == 0 && session.last.elapsed() >= IDLE)
        {
            self.session = None;
        }
        Ok(())
    }

    /// Hands an answer of the helper on. If that is an error it is the last one, whatever the helper still owed.
    fn hand_on(&mut self) {
        let Some(session) = &mut self.session else { return };
        let said = match session.helper.heard() {
            Ok(Some(said)) => said,
            Ok(None) => Err("the process that did the work there is gone".into()),
            Err(why) => Err(why.to_string()),
        };
        session.owed.answers = session.owed.answers.saturating_sub(1);
        session.last = Instant::now();
        let (number, with, is_last) = (session.number, session.with, said.is_err());
        if !self.answer(number, with, said) || is_last {
            self.session = None;
        }
    }

    /// Does what a call asks for. A text that is no call is ignored, and so is one from this node, where there is nothing to
    /// measure: what is answered to endpoints of this node that have ended would wait here for the next with their numbers, and
    /// leave no room.
    fn hear(&mut self, text: &[u8], from: Addr) {
        let Some(call) = serde_json::from_slice::<Call>(text).ok().filter(|_| !self.is_here(from)) else {
            return;
        };
        let number = call.session;
        let say = serde_json::from_value(call.say).ok().filter(|_| call.version == VERSION);
        let other = self.session.as_ref().filter(|session| (session.number, session.with) != (number, from));
        let other = other.map(|session| session.with);
        let said = match (say, other) {
            (Some(Say::Bye), None) => return self.session = None,
            (Some(Say::Bye), Some(_)) => return,
            (_, Some(other)) => Err(format!(
                "endpoint {other} is being served; try again when it is done; one that was killed is given up after a minute"
            )),
            (Some(Say::Hello), None) => Ok(Value::Null),
            (Some(Say::Do(job)), None) if job.is_for_nodes() => match self.have_done(number, from, &job) {
                Ok(()) => return,
                Err(why) => {
                    self.session = None;
                    Err(why.to_string())
                }
            },
            _ => Err(OTHER_VERSION.into()),
        };
        self.answer(number, from, said);
    }

    fn is_here(&self, at: Addr) -> bool {
        at.nid == 0 || at.nid == self.nid
    }

    fn have_done(&mut self, number: u64, with: Addr, job: &Job) -> Result<()> {
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(Session {
                number,
                with,
                helper: Helper::start()?,
                owed: Owed::default(),
                last: Instant::now(),
            }),
        };
        if !session.owed.add(job) {
            return Err("more was asked at once than a measurement asks".into());
        }
        session.last = Instant::now();
        session.helper.tell(job, &[])
    }

    /// Whether there was room for it: who takes no answers is not served.
    fn answer(&self, session: u64, with: Addr, said: std::result::Result<Value, String>) -> bool {
        let text = serde_json::to_vec(&Answer { session, said });
        text.is_ok_and(|text| self.endpoint.send_to(&text, with).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use dp_measure::cost::probe::Load;

    use super::super::clock::Timing;
    use super::super::peer::Task;
    use super::*;

    #[test]
    fn no_more_is_asked_at_once_than_a_measurement_asks() {
        let take = |later| {
            let task = Task::Take { load: Load::whole(8), packets: 1, later, timing: Timing::Chunks };
            Job::On { end: 0, task }
        };
        let mut owed = Owed::default();
        assert!(owed.add(&take(true)) && owed.add(&Job::Go) && !owed.add(&Job::Go));
        let mut owed = Owed::default();
        assert!(owed.add(&take(false)) && !owed.add(&Job::Go));
        let mut owed = Owed::default();
        assert!((0..MOST_OWED).all(|_| owed.add(&Job::Close)) && !owed.add(&Job::Close));
    }
}
