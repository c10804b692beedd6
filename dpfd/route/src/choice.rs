//! Which of several routes to a peer is used.
//!
//! A state machine without I/O and without a clock: whoever owns the routes tells it what happened, and when. Frames go by
//! one route, the first in the wanted order that is not dead. A route dies of an error of its own, or because the layer
//! above heard nothing for too long; it is probed then, more and more seldom, and taken back once the peer has answered
//! by it. One that died again soon after must answer more often before it is trusted. As nothing but [`Choice::current`]
//! gives a route out, no frame goes by two at once. What was on its way when a route died is the reliable layer's to repeat.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::{Frames, PeerAddr, Reason, Route};

/// A dead route is probed for the first time after so long, and then each time after twice as long as before.
pub const PROBE_FIRST: Duration = Duration::from_millis(100);
/// But never more seldom than this.
pub const PROBE_LAST: Duration = Duration::from_secs(5);
/// Answers that bring a dead route back, at first and at most. While no route lives, one is enough.
pub const ANSWERS: [u32; 2] = [2, 32];
/// A route that has lived for so long since it came back is trusted as it was at first.
pub const STABLE: Duration = Duration::from_secs(10);

/// What an endpoint, a message or the graph asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Want<'a> {
    /// The order in which the NART lists the peer's addresses.
    #[default]
    Order,
    /// This one while it lives, then the others in order.
    First(&'a str),
    /// This one or none.
    Only(&'a str),
}

/// There is no such route to this peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no route {wanted:?} leads to this peer; the graph lists {there}")]
pub struct NoSuchRoute {
    wanted: String,
    there: String,
}

/// The state of the routes to one peer. A route is named by its place in the NART.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Places in the NART, in the wanted order.
    candidates: Vec<Candidate>,
    current: Option<usize>,
    turn: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Candidate {
    place: usize,
    state: State,
    /// Answers that it needs to come back the next time.
    needs: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Alive {
        /// When it came back, if it was ever dead.
        since: Option<Duration>,
    },
    Dead {
        probe: Duration,
        wait: Duration,
        answers: u32,
    },
}

impl Choice {
    /// Of the routes with these names, in the NART's order; all are thought to live.
    ///
    /// # Errors
    /// None of them has the wanted name.
    pub fn new(names: &[&str], want: Want<'_>) -> Result<Choice, NoSuchRoute> {
        let mut places: Vec<usize> = (0..names.len()).collect();
        if let Want::First(wanted) | Want::Only(wanted) = want {
            if !names.contains(&wanted) {
                return Err(NoSuchRoute { wanted: wanted.into(), there: names.join(", ") });
            }
            // Stable: those of that name, of which there can be several, come first.
            places.sort_by_key(|&place| names[place] != wanted);
            if matches!(want, Want::Only(_)) {
                places.retain(|&place| names[place] == wanted);
            }
        }
        let candidate = |place| Candidate { place, state: State::Alive { since: None }, needs: ANSWERS[0] };
        let candidates: Vec<Candidate> = places.into_iter().map(candidate).collect();
        let current = candidates.first().map(|candidate| candidate.place);
        Ok(Choice { candidates, current, turn: 0 })
    }

    /// The route by which frames go now; none if all are dead.
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    /// The same for frames that are to go by one of these, while one of them is not dead.
    pub fn current_of(&self, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let alive = self.candidates.iter().filter(|candidate| matches!(candidate.state, State::Alive { .. }));
        alive.map(|candidate| candidate.place).find(|place| wanted(*place)).or(self.current)
    }

    /// Counts how often the current route became another one, so that estimates of the former are not used for it.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Whether that route is not thought to be dead.
    pub fn is_alive(&self, place: usize) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.place == place && matches!(candidate.state, State::Alive { .. }))
    }

    /// Sending by that route failed. Whether it is dead now.
    pub fn failed(&mut self, now: Duration, place: usize, reason: Reason) -> bool {
        if reason.is_fatal() {
            self.kill(now, place);
        }
        !self.is_alive(place)
    }

    /// The layer above sent by that route, and heard nothing of the peer by any for too long.
    pub fn silent(&mut self, now: Duration, place: usize) {
        self.kill(now, place);
    }

    /// The peer answered what was sent by that route. Only that shows that both directions work: frames of the peer's that
    /// come by it are no answer.
    pub fn answered(&mut self, now: Duration, place: usize) {
        let nothing_lives = self.current.is_none();
        let Some(candidate) = self.candidate(place) else { return };
        match &mut candidate.state {
            State::Alive { since } => {
                if since.is_some_and(|since| now.saturating_sub(since) >= STABLE) {
                    *since = None;
                    candidate.needs = ANSWERS[0];
                }
            }
            State::Dead { answers, wait, probe } => {
                *answers += 1;
                if *answers >= candidate.needs || nothing_lives {
                    candidate.state = State::Alive { since: Some(now) };
                } else {
                    // The next probes follow quickly.
                    *wait = PROBE_FIRST;
                    *probe = (*probe).min(now + PROBE_FIRST);
                }
            }
        }
        self.choose();
    }

    /// A dead route whose time has come: the layer above is to send something by it that the peer answers, and no frame
    /// of a message. Call it until it gives none.
    pub fn probe(&mut self, now: Duration) -> Option<usize> {
        self.candidates.iter_mut().find_map(|candidate| match &mut candidate.state {
            State::Dead { probe, wait, .. } if *probe <= now => {
                *wait = (*wait * 2).min(PROBE_LAST);
                *probe = now + *wait;
                Some(candidate.place)
            }
            _ => None,
        })
    }

    /// When a probe is due next.
    pub fn next_probe(&self) -> Option<Duration> {
        let times = self.candidates.iter().filter_map(|candidate| match candidate.state {
            State::Dead { probe, .. } => Some(probe),
            State::Alive { .. } => None,
        });
        times.min()
    }

    fn candidate(&mut self, place: usize) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|candidate| candidate.place == place)
    }

    fn kill(&mut self, now: Duration, place: usize) {
        let Some(candidate) = self.candidate(place) else { return };
        match &mut candidate.state {
            State::Alive { since } => {
                if let Some(since) = *since {
                    let soon = now.saturating_sub(since) < STABLE;
                    candidate.needs = if soon { (candidate.needs * 2).min(ANSWERS[1]) } else { ANSWERS[0] };
                }
                candidate.state = State::Dead { probe: now + PROBE_FIRST, wait: PROBE_FIRST, answers: 0 };
            }
            // A probe failed: what was answered before counts no longer.
            State::Dead { answers, .. } => *answers = 0,
        }
        self.choose();
    }

    fn choose(&mut self) {
        let alive = self.candidates.iter().find(|candidate| matches!(candidate.state, State::Alive { .. }));
        let chosen = alive.map(|candidate| candidate.place);
        if chosen != self.current {
            self.current = chosen;
            self.turn = self.turn.wrapping_add(1);
        }
    }
}

/// Sends frames to a peer by the chosen route; if that dies of the first one, by the next. `routes` and `peer` have a route
/// and the peer's address on it for each place in the NART. Answers as [`Route::send`] does.
///
/// # Errors
/// As [`Route::send`]; EMSGSIZE also where a route with a shorter MTU has come in: the frames must be cut anew.
/// EHOSTUNREACH: all routes are dead.
pub fn send(
    choice: &mut Choice,
    now: Duration,
    routes: &mut [Box<dyn Route>],
    peer: &[PeerAddr],
    frames: Frames<'_>,
) -> io::Result<usize> {
    let mut error = io::Error::from_raw_os_error(libc::EHOSTUNREACH);
    while let Some(place) = choice.current() {
        let (Some(route), Some(to)) = (routes.get_mut(place), peer.get(place)) else { break };
        match route.send(to, frames) {
            // Where it died of a later one, the next call meets that error.
            Ok(n) => return Ok(n),
            Err(this) => {
                let dead = choice.failed(now, place, Reason::of(&this));
                error = this;
                if !dead {
                    break;
                }
            }
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests;
