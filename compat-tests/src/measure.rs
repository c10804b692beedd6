//! Unmodified programs over TCP and over DP, measured side by side: what `demo` and `programs_bench` share.
//!
//! All setups of one comparison take turns within each round, every other round in the opposite order, so that
//! all of them meet the same state of the machine. A ratio is the median of the rounds' own ratios. Servers and
//! clients are kept on a core each ([`cores`]), everything stays on 127.0.0.1 and in one temporary folder
//! ([`scratch`]), and each process that is started is ended again ([`process`]), after Ctrl-C too.
//!
//! What became of the bytes is asked of the product (`dp ls --json`, [`counters`]) and compared with what the
//! measured program counted itself.

pub mod cores;
pub mod counters;
pub mod crowd;
pub mod endpoint;
pub mod idle;
pub mod iperf;
pub mod kit;
pub mod lookers;
pub mod process;
pub mod redis;
pub mod report;
pub mod scratch;
pub mod targets;
pub mod told;
pub mod turns;

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why something could not be measured, and the way out.
#[derive(Debug, Error)]
pub enum Error {
    /// A program that is measured is not installed.
    #[error("{program}: not found in PATH; as root, run: apt-get install --no-install-recommends {package}")]
    Missing {
        /// Its command.
        program: &'static str,
        /// Debian's package of it.
        package: &'static str,
    },
    /// A program of ours that is built apart is not there.
    #[error("{program}: not built; {how}")]
    NotBuilt {
        /// The program.
        program: &'static str,
        /// What builds it.
        how: &'static str,
    },
    /// The product itself is not there.
    #[error("{0}: not there; run `make build`, or name another dp with --dp")]
    NoDp(PathBuf),
    /// `dp run` does not run even the simplest program.
    #[error("`dp run` cannot run a program: {0}")]
    DpRun(String),
    /// Two processes cannot be kept apart.
    #[error(
        "this process may use core {0} only, and two cores are needed; \
         widen it with `taskset -cp 0-1 $$`, or give the machine or container a second processor"
    )]
    OneCore(usize),
    /// A port that others took between the choice and the use, again and again.
    #[error("{what}: port {port} of 127.0.0.1 was taken by another program each time; run it again")]
    Port {
        /// The measurement that wanted it.
        what: String,
        /// The last port tried.
        port: u16,
    },
    /// A process ended that should have gone on, or ended badly.
    #[error("{what} ended with {status}; its last words:\n{words}")]
    Ended {
        /// The process.
        what: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        words: String,
    },
    /// A process did not get ready or finish; it was killed.
    #[error("{what} took longer than {} s and was killed; {hint}", limit.as_secs_f32())]
    Slow {
        /// The process, and what it was to do.
        what: String,
        /// The limit it broke.
        limit: Duration,
        /// What to do about it.
        hint: &'static str,
    },
    /// A program printed something else than it is known to.
    #[error("{what} said something unexpected: {said}; its version may be another than those known here")]
    Words {
        /// The program.
        what: String,
        /// What it said, shortened.
        said: String,
    },
    /// What arrived is not what was sent, or something that had to happen did not.
    #[error("{0}")]
    Wrong(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// The object and the operation.
        what: String,
        /// The refusal.
        source: io::Error,
    },
    /// Ctrl-C or a polite signal; everything has been cleaned up when this is seen.
    #[error("interrupted; all processes that were started have been ended")]
    Interrupted,
}

impl Error {
    /// An error if this does not hold.
    ///
    /// # Errors
    /// [`Error::Wrong`].
    pub fn unless(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Error> {
        match holds {
            true => Ok(()),
            false => Err(Error::Wrong(otherwise())),
        }
    }

    /// For `map_err`: the system refused this.
    pub fn system<E: Into<io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
        move |source| Error::System { what: what.to_string(), source: source.into() }
    }

    /// A program's unexpected words, of which the beginning is kept.
    pub fn words(what: impl Display, said: &str) -> Error {
        let said = said.trim().chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Error::Words { what: what.to_string(), said }
    }
}
