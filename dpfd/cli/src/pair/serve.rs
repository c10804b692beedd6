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
use dpfd::{Addr, Dpid, Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde_json::Value;

use super::helper::Helper;
use super::line::{Answer, Call, Say, POOL, VERSION};
use super::peer::Job;
use super::routes::{gateway, SERVE};
use super::Result;
use crate::signals;

/// Whoever says nothing for so long, and is owed nothing, is taken to be gone.
const IDLE: Duration = Duration::from_secs(60);
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
    session: Option<Session>,
}

/// Who is served.
struct Session {
    number: u64,
    with: Addr,
    helper: Helper,
    /// Answers that are to come from the helper.
    owed: u32,
    last: Instant,
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
        Ok(Server { endpoint, session: None })
    }

    fn run(&mut self) -> Result<nix::sys::signal::Signal> {
        loop {
            if let Some(signal) = signals::caught() {
                return Ok(signal);
            }
            // On return from a receive in vain the descriptor tells of the next message.
            let got = self.endpoint.recv().map(|message| (message.to_vec(), message.from()));
            match got {
                Ok((text, from)) => self.hear(&text, from),
                Err(Error::WouldBlock | Error::Interrupted) => self.wait()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Until a message, an answer of the helper, which is handed on, a signal, or the time at which nobody is served any more.
    fn wait(&mut self) -> Result<()> {
        let mut both = vec![PollFd::new(self.endpoint.as_fd(), PollFlags::POLLIN)];
        let mut timeout = PollTimeout::NONE;
        if let Some(session) = &self.session {
            both.push(PollFd::new(session.helper.as_fd(), PollFlags::POLLIN));
            if session.owed == 0 {
                timeout = PollTimeout::try_from(IDLE)?;
            }
        }
        match poll(&mut both, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(format!("poll: {e}").into()),
        }
        if both.get(1).is_some_and(|helper| helper.any().unwrap_or(false)) {
            self.hand_on();
        }
        if self.session.as_ref().is_some_and(|session| session.owed == 0 && session.last.elapsed() >= IDLE) {
            self.session = None;
        }
        Ok(())
    }

    /// An answer of the helper. An error is its last one, whatever it still owed.
    fn hand_on(&mut self) {
        let Some(session) = &mut self.session else { return };
        let said = match session.helper.heard() {
            Ok(Some(said)) => said,
            Ok(None) => Err("the process that did the work there is gone".into()),
            Err(why) => Err(why.to_string()),
        };
        session.owed = session.owed.saturating_sub(1);
        session.last = Instant::now();
        let (number, with, is_last) = (session.number, session.with, said.is_err());
        if !self.answer(number, with, said) || is_last {
            self.session = None;
        }
    }

    /// A call. What is none is nobody's.
    fn hear(&mut self, text: &[u8], from: Addr) {
        let Ok(call) = serde_json::from_slice::<Call>(text) else { return };
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

    fn have_done(&mut self, number: u64, with: Addr, job: &Job) -> Result<()> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                none.insert(Session { number, with, helper: Helper::start()?, owed: 0, last: Instant::now() })
            }
        };
        session.owed += job.answers();
        session.last = Instant::now();
        session.helper.tell(job, &[])
    }

    /// Whether there was room for it: who takes no answers is not served.
    fn answer(&self, session: u64, with: Addr, said: std::result::Result<Value, String>) -> bool {
        let text = serde_json::to_vec(&Answer { session, said });
        text.is_ok_and(|text| self.endpoint.send_to(&text, with).is_ok())
    }
}
