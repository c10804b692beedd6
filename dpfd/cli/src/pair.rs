//! Two processes on two cores, and a way of sending between them: what `dp bench`, `dp logp` and `dp cost` measure on.
//!
//! | file | holds |
//! |---|---|
//! | [`options`] | what all three are told on the command line |
//! | [`cores`], [`nodes`] | which cores, and staying there; the other node, for what goes over Ethernet |
//! | [`helper`] | another process of this program, told over a socket what to do |
//! | [`peer`] | what it can be told: the one protocol; making pairs |
//! | [`routes`], [`line`], [`serve`] | another node behind a gateway; telling its process what to do; that process's side |
//! | [`work`] | what it does then |
//! | [`transport`], [`end`] | the ways of sending, and one end of each |
//! | [`link`] | what carries messages or bytes: sockets, pipes |
//! | [`endpoints`] | endpoints by the library's calls, plain reads and writes on them, or nobody's |
//! | [`channel`] | a TCP connection under the shim |
//! | [`queues`], [`futex`], [`floor`] | more of the kernel's; the word that no protocol can beat |
//! | [`crowd`] | connections or endpoints that nobody uses |
//! | [`buffer`], [`clock`] | the program's memory; reading the clock, and what counts |
//! | [`requests`], [`exchange`] | requests and replies; packets both ways at once |

pub mod buffer;
pub mod channel;
pub mod clock;
pub mod cores;
pub mod crowd;
pub mod end;
pub mod endpoints;
pub mod exchange;
pub mod floor;
mod futex;
mod helper;
mod line;
pub mod link;
pub mod nodes;
pub mod options;
pub mod peer;
mod queues;
pub mod requests;
pub mod routes;
pub mod serve;
pub mod transport;
pub mod work;

use std::io::IsTerminal;
use std::process::ExitCode;

/// What goes wrong here is the machine's or a transport's; where, is told in words.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The last byte of a message that ends a turn; 0 in all others.
pub const STOP: u8 = 0xff;

/// Prints what was found.
pub fn finish(verb: &str, found: Result<String>) -> ExitCode {
    progress("");
    match found {
        Ok(text) => match crate::say::text(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("dp {verb}: {why}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("dp {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One line that replaces the one before it, for people only.
pub fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}

/// The same, behind a bar: `[=====     ]  50 %  what`.
pub fn progress_of(what: &str, done: usize, all: usize) {
    let part = done.min(all) as f64 / all.max(1) as f64;
    let full = (part * 30.0) as usize;
    progress(&format!("[{:<30}] {:>3.0} %  {what}", "=".repeat(full), 100.0 * part));
}
