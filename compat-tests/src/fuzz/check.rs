//! Runs a script natively and under the shim, and says whether they differ.

use std::thread;

use super::judge::{as_on_tcp, comparable, is_unfair, same};
use super::known::known;
use super::run::{Shimmed, Tools, NOT_REACHED};
use super::script::Script;

/// A script that does not do the same under the shim, twice.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The script.
    pub script: Script,
    /// Which sides had the shim.
    pub shimmed: Shimmed,
    /// What TCP said, line by line.
    pub native: Vec<String>,
    /// What was said under the shim.
    pub other: Vec<String>,
    /// The first line that differs.
    pub line: usize,
}

/// How bad a difference is. A script that is made short must not become a harmless one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Another answer.
    Answer,
    /// No answer.
    Hangs,
    /// Bytes that are not those of the stream.
    Bytes,
}

impl Difference {
    /// The worst that happened in it.
    pub fn severity(&self) -> Severity {
        let only_here = |what: &str| {
            self.other
                .iter()
                .zip(&self.native)
                .any(|(other, native)| other.contains(what) && !native.contains(what))
        };
        if only_here("BAD") {
            Severity::Bytes
        } else if only_here("HANG") || only_here("stuck") {
            Severity::Hangs
        } else {
            Severity::Answer
        }
    }
}

/// What a look at a script found.
#[derive(Debug)]
pub enum Verdict {
    /// The same.
    Same,
    /// Not the same, by design: the reason.
    Known(&'static str),
    /// Not the same once, and the same afterwards; or Linux itself does not always say the same.
    Unsteady,
    /// Not the same.
    Differs(Box<Difference>),
}

/// How often TCP must have said the same before its word counts.
const NATIVE_RUNS: usize = 3;

/// How often TCP is asked again before its word against the shim's counts: what it says now and then is no difference.
const SECOND_THOUGHTS: usize = 6;

/// Then it is asked so often by so many at the same time: a difference that comes of a busy machine, which was too late for a
/// signal or a time limit, comes to TCP on a busy machine as well.
const CROWDS: usize = 4;
const CROWD: usize = 6;

/// How often a script is run under the shim to see a difference twice.
const SHIM_RUNS: usize = 4;

/// What comes first, a signal or the bytes that the other side sends a little later, is a matter of the machine's load, also
/// where only one side has the shim; and so is when a relay hands on what it has. Such a line must differ so often in a row.
const IN_A_ROW: usize = 6;

impl Tools {
    /// Whether the script does the same under the shim as on TCP.
    pub fn check(&self, script: &Script, shimmed: Shimmed) -> Verdict {
        let native = self.run(script, Shimmed::NONE);
        self.check_against(script, shimmed, native)
    }

    /// The same, with a native run that has been made already.
    pub fn check_against(&self, script: &Script, shimmed: Shimmed, native: Vec<String>) -> Verdict {
        let words = comparable(script, &native);
        let mut other = self.run(script, shimmed);
        let mut got = comparable(script, &other);
        if words.iter().zip(&got).all(|(word, got)| as_on_tcp(word, got)) {
            return Verdict::Same;
        }
        if is_unfair(script, &native) || is_unfair(script, &other) {
            return Verdict::Unsteady;
        }
        // A close that lingers until the other side reads waits for nothing where the other side's ring has it all.
        if native.iter().any(|result| result.contains("HANG")) {
            return Verdict::Unsteady;
        }
        let mut steady = vec![true; words.len()];
        for _ in 1..NATIVE_RUNS {
            let again = comparable(script, &self.run(script, Shimmed::NONE));
            for (steady, (word, again)) in steady.iter_mut().zip(words.iter().zip(&again)) {
                *steady &= same(word, again);
            }
        }
        let first = |got: &[String]| {
            (0..words.len()).find(|&at| {
                steady[at]
                    && !as_on_tcp(&words[at], &got[at])
                    && native[at] != NOT_REACHED
                    && got[at] != NOT_REACHED
            })
        };
        if first(&got).is_none() {
            return Verdict::Unsteady;
        }
        // Once may be this machine's fault. It need not be the same line again: what is a race in the shim is not
        // lost at the same place each time.
        let again = (1..SHIM_RUNS).find_map(|_| {
            other = self.run_patiently(script, shimmed);
            got = comparable(script, &other);
            first(&got).filter(|_| !is_unfair(script, &other))
        });
        let Some(line) = again else { return Verdict::Unsteady };
        if let Some(reason) = known(script, line, &words[line], &got[line]) {
            return Verdict::Known(reason);
        }
        let on_tcp = |results: &[String]| as_on_tcp(&words[line], &comparable(script, results)[line]);
        let by_signal = script.0[line].words.iter().any(|word| word == "alarmed");
        let by_relay = script.0[..line].iter().any(|before| before.words.iter().any(|word| word == "post"));
        if (by_signal || by_relay) && (0..IN_A_ROW).any(|_| on_tcp(&self.run(script, shimmed))) {
            return Verdict::Unsteady;
        }
        let says_so = |native: &[String]| as_on_tcp(&comparable(script, native)[line], &got[line]);
        let says_so = (0..SECOND_THOUGHTS).any(|_| says_so(&self.run(script, Shimmed::NONE)))
            || (0..CROWDS).any(|_| self.crowd(script).iter().any(|native| says_so(native)));
        if says_so {
            return Verdict::Unsteady;
        }
        Verdict::Differs(Box::new(Difference { script: script.clone(), shimmed, native, other, line }))
    }

    /// What TCP says to many at the same time.
    fn crowd(&self, script: &Script) -> Vec<Vec<String>> {
        thread::scope(|scope| {
            let run = || self.run(script, Shimmed::NONE);
            let crowd: Vec<_> = (0..CROWD).map(|_| scope.spawn(run)).collect();
            crowd.into_iter().filter_map(|one| one.join().ok()).collect()
        })
    }
}
