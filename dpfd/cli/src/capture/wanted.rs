//! Which channels are wanted.

use std::net::SocketAddr;

use dp_rules::Pattern;

use crate::ls::filter::{is_called, is_one, pattern, pid};

/// Options that name channels. Those of one kind are alternatives; each kind narrows.
#[derive(clap::Args, Default)]
pub struct Wanted {
    /// Only channels with an end in these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// Only channels of programs with such a name; * stands for any characters, ? for one.
    #[arg(long, value_name = "NAME", value_parser = pattern)]
    program: Vec<Pattern>,
    /// Only channels with one of these ports at either end.
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
}

impl Wanted {
    /// Whether a channel with an end in that process is.
    pub fn is_of(&self, pid: u32, program: &str) -> bool {
        is_one(&self.pid, |&asked| asked == pid) && is_one(&self.program, |asked| is_called(asked, program))
    }

    /// Whether a channel between these two is, as far as ports go.
    pub fn is_between(&self, ends: [SocketAddr; 2]) -> bool {
        is_one(&self.port, |&asked| ends.iter().any(|end| end.port() == asked))
    }
}
