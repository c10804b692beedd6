//! `dp bench`: not there yet.

use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_args: Args) -> ExitCode {
    eprintln!("dp bench: not there yet");
    ExitCode::from(2)
}
