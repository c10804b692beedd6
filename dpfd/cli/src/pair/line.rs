//! Jobs for the process that serves on another node, as messages between two endpoints: see [`peer`](super::peer) for what
//! they are, and [`serve`](super::serve) for the other side.
//!
//! Numbers of endpoints are used again, and what waits for one that has ended goes to the next; so each call and each answer
//! has the number of its session, which nobody else draws.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use dpfd::{Addr, Endpoint, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoints::{look_up_in_all_calls, patiently, recv_from, OneEnd};
use super::peer::Job;
use super::Result;

/// Two versions of `dp` understand each other only if they have the same number here.
pub const VERSION: u32 = 1;
/// A call or an answer is shorter, bytes.
pub const LONGEST: usize = 8192;
/// Pool of an endpoint that a line ends at, bytes.
pub const POOL: usize = 64 * 1024;
/// How long whoever serves may take to greet: a node that was down is asked every five seconds.
const GREETED: Duration = Duration::from_secs(6);

/// Neither the gateway's refusal nor the library's says which of these it was.
const REFUSED: &str = "this user may not send there; where the graph is strict nobody can measure, because the endpoints have any \
    free numbers, which no edge names; else the gateway is another user's, who can, and so can root";

/// What this node says.
#[derive(Serialize, Deserialize)]
pub struct Call {
    pub session: u64,
    pub version: u32,
    /// [`Say`], if that is understood.
    pub say: Value,
}

/// What it says.
#[derive(Serialize, Deserialize)]
pub enum Say {
    /// Is somebody there, who serves nobody else? Answered with nothing.
    Hello,
    /// Answered as the job is.
    Do(Job),
    /// Nothing more. Not answered.
    Bye,
}

/// What is answered.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    pub session: u64,
    pub said: std::result::Result<Value, String>,
}

/// Another number each time.
pub fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// This end.
pub struct Line {
    endpoint: Endpoint,
    to: Addr,
    session: u64,
}

impl Line {
    /// Greets whoever serves there; none if nobody answers.
    ///
    /// # Errors
    ///
    /// No endpoint can be opened; this user may not send there; who serves there does not want to.
    pub fn open(to: Addr) -> Result<Option<Line>> {
        let endpoint = Endpoint::open_on(Driver::User, 0)?;
        endpoint.pool(POOL)?;
        look_up_in_all_calls();
        let line = Line { endpoint, to, session: drawn() };
        line.say(&Say::Hello).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => REFUSED.into(),
            _ => error.to_string(),
        })?;
        let (end, mut into) = (Instant::now() + GREETED, vec![0; LONGEST]);
        while Instant::now() < end {
            match line.endpoint.recv_from(&mut into) {
                Ok((n, from)) => match line.of_session(from, &into[..n.min(LONGEST)]) {
                    Some(said) => return Ok(said.map(|_: Value| Some(line))?),
                    None => continue,
                },
                Err(Error::WouldBlock | Error::Interrupted) => {}
                Err(error) => return Err(error.into()),
            }
            if line.endpoint.stat().denied > 0 {
                return Err(REFUSED.into());
            }
        }
        Ok(None)
    }

    pub fn tell(&self, job: Job) -> Result<()> {
        Ok(self.say(&Say::Do(job))?)
    }

    /// Waits for what is answered.
    pub fn answer<A: for<'a> Deserialize<'a>>(&self) -> Result<A> {
        let mut into = vec![0; LONGEST];
        loop {
            let (n, from) = recv_from(&self.endpoint, &mut into)?;
            if let Some(said) = self.of_session(from, &into[..n]) {
                let said = said.map_err(|why| format!("node {}: {why}", self.to.nid))?;
                return Ok(serde_json::from_value(said)?);
            }
        }
    }

    /// Why the other side gave up, if it did and said so.
    pub fn last_words(&self) -> Option<String> {
        self.endpoint.set_nonblocking(true).ok()?;
        let mut into = vec![0; LONGEST];
        loop {
            let (n, from) = self.endpoint.recv_from(&mut into).ok()?;
            if let Some(Err(why)) = self.of_session(from, &into[..n.min(LONGEST)]) {
                return Some(format!("node {}: {why}", self.to.nid));
            }
        }
    }

    /// Both ends of a way there by this route; both have met.
    pub fn meet(&self, route: &str, pool: Option<usize>) -> Result<OneEnd> {
        let (mut end, greeting) = (OneEnd::by_route(route, pool)?, drawn());
        // The gateway's own number for this node, which the other one knows it by.
        let with = (super::routes::gateway()?.nid, end.endpoint.dpid());
        self.tell(Job::Meet { with, pool, route: route.into(), greeting })?;
        let there = Addr { nid: self.to.nid, dpid: self.answer()? };
        let met = end.meet(route, there, greeting);
        // Why the other side gave up says more.
        match (self.answer::<()>(), met) {
            (Ok(()), Ok(())) => Ok(end),
            (Err(why), _) | (_, Err(why)) => Err(why),
        }
    }

    fn say(&self, say: &Say) -> io::Result<()> {
        let call = Call { session: self.session, version: VERSION, say: serde_json::to_value(say)? };
        let text = serde_json::to_vec(&call)?;
        patiently(|| self.endpoint.send_to(&text, self.to))
    }

    /// What was said, if it is an answer of this session.
    fn of_session(&self, from: Addr, text: &[u8]) -> Option<std::result::Result<Value, String>> {
        let answer: Answer = serde_json::from_slice(text).ok().filter(|_| from == self.to)?;
        (answer.session == self.session).then(|| answer.said.map_err(|why| shown(&why)))
    }
}

/// Without characters that a terminal obeys: another node said it.
fn shown(why: &str) -> String {
    let mut shown = String::with_capacity(why.len());
    for c in why.chars() {
        if c.is_control() {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.say(&Say::Bye);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_node_says_does_not_steer_the_terminal() {
        assert_eq!(shown("route \u{1b}[2Jnäch\nste"), "route \\u{1b}[2Jnäch\\nste");
    }
}
