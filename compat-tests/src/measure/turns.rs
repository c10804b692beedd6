//! Taking turns: every round runs all setups, so that each meets the same state of the machine.

use std::io::{stderr, IsTerminal, Write};
use std::time::Duration;

use dp_measure::stats::{Interval, Spread};
use dp_measure::turns::order;

use super::kit::Setup;
use super::process::Cost;
use super::Error;

/// What one setup came to in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// What is compared: requests or bits in a second, milliseconds of CPU time, ...
    pub value: f64,
    /// Of the server, in that time.
    pub server: Cost,
    /// Of the client.
    pub client: Cost,
}

/// The samples of some setups, round by round.
#[derive(Clone, Debug)]
pub struct Turns<S = Sample> {
    setups: Vec<Setup>,
    rounds: Vec<Vec<S>>,
}

impl<S> Turns<S> {
    /// Samples that were taken elsewhere: a list a round, with one of each setup in it.
    pub fn of(setups: &[Setup], rounds: Vec<Vec<S>>) -> Turns<S> {
        Turns { setups: setups.to_vec(), rounds }
    }

    /// Runs all setups in each round; every other round in the opposite order.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn take(
        setups: &[Setup],
        rounds: usize,
        mut run: impl FnMut(Setup, usize) -> Result<S, Error>,
    ) -> Result<Turns<S>, Error> {
        let mut turns = Turns { setups: setups.to_vec(), rounds: Vec::new() };
        for round in 0..rounds {
            let mut samples = Vec::new();
            for i in order(setups.len(), round) {
                samples.push((i, run(setups[i], round)?));
            }
            samples.sort_by_key(|(i, _)| *i);
            turns.rounds.push(samples.into_iter().map(|(_, sample)| sample).collect());
        }
        Ok(turns)
    }

    /// One thing of each sample of a setup.
    pub fn each<T>(&self, setup: Setup, number: impl Fn(&S) -> T) -> Vec<T> {
        let Some(i) = self.setups.iter().position(|w| *w == setup) else { return Vec::new() };
        self.rounds.iter().filter_map(|round| round.get(i)).map(number).collect()
    }

    /// The rounds' own ratios between two setups, and their median.
    pub fn ratio(&self, setup: Setup, to: Setup, number: impl Fn(&S) -> f64) -> Option<Interval> {
        let pairs = self.each(setup, &number).into_iter().zip(self.each(to, &number));
        let ratios: Vec<f64> = pairs.map(|(a, b)| a / b).filter(|ratio| ratio.is_finite()).collect();
        Interval::of(&ratios)
    }

    /// The same rounds, seen differently.
    pub fn map<T>(&self, view: impl Fn(&S) -> T) -> Turns<T> {
        let rounds = self.rounds.iter().map(|round| round.iter().map(&view).collect()).collect();
        Turns { setups: self.setups.clone(), rounds }
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The setups, in the order given.
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }
}

impl Turns {
    /// The values of a setup.
    pub fn values(&self, setup: Setup) -> Option<Spread> {
        Spread::of(&self.each(setup, |sample| sample.value))
    }
}

/// A work load whose runs should all take the same time, however fast it goes: `-n` for redis-benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: Option<f64>,
    first: u64,
}

impl Pace {
    /// Begins with this many requests, to see how fast they go.
    pub fn starting_with(first: u64) -> Pace {
        Pace { rate: None, first }
    }

    /// So many requests take about this time.
    pub fn requests(&self, time: Duration) -> u64 {
        match self.rate {
            None => self.first,
            Some(rate) => ((rate * time.as_secs_f64()) as u64).max(self.first),
        }
    }

    /// Learns from a run.
    pub fn learn(&mut self, rate: f64) {
        self.rate = Some(rate);
    }
}

/// One line that tells how far things are, where somebody looks; nothing in a file or a pipe.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// On standard error.
    pub fn new() -> Progress {
        Progress { shown: stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn show(&self, line: &str) {
        if self.shown {
            // A caller that does not want to hear of it loses nothing.
            let _ = write!(stderr(), "\r\x1b[K{line}");
        }
    }

    /// Takes the line away, before something that stays is printed.
    pub fn clear(&self) {
        self.show("");
    }
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests;
