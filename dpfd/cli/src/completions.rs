//! `dp completions`: the shells' scripts are made from the definition of the command line, so they cannot fall behind it.

use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::{generate, Shell};

use crate::say;

const AFTER_HELP: &str = "\
`make install` puts them where the shells look. Without it, for this session:

  bash   source <(dp completions bash)
  zsh    source <(dp completions zsh)          after compinit
  fish   dp completions fish | source";

const BASH_PROGRAMS: &str = r#"
_dp_with_programs() {
    _dp "$@"
    if [[ ${COMP_WORDS[1]} == run && ( $3 == run || $3 == -- ) && $2 != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$2" | sort -u)
    fi
}
complete -F _dp_with_programs -o bashdefault -o default dp
"#;

const FISH_PROGRAMS: &str = r#"
complete -c dp -n "__fish_dp_using_subcommand run" -x -a "(__fish_complete_subcommand --fcs-skip=2)"
complete -c dp -n "__fish_dp_using_subcommand completions" -x -a "bash zsh fish"
"#;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Known,
}

/// Those that the tests have.
#[derive(Clone, Copy, ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

impl Known {
    /// What the generator leaves out: the word after `dp run` is a program.
    fn programs(self) -> &'static str {
        match self {
            Known::Bash => BASH_PROGRAMS,
            Known::Zsh => "",
            Known::Fish => FISH_PROGRAMS,
        }
    }
}

impl From<Known> for Shell {
    fn from(shell: Known) -> Shell {
        match shell {
            Known::Bash => Shell::Bash,
            Known::Zsh => Shell::Zsh,
            Known::Fish => Shell::Fish,
        }
    }
}

pub fn main(args: &Args, command: &Command) -> ExitCode {
    // The generator panics when it cannot write, and a reader may leave before the end.
    let mut script = Vec::new();
    generate(Shell::from(args.shell), &mut shown(command), "dp", &mut script);
    script.extend_from_slice(args.shell.programs().as_bytes());
    match say::bytes(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dp completions: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The command without what its help hides, which the generator would offer.
fn shown(command: &Command) -> Command {
    let mut copy = Command::new(command.get_name().to_owned());
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(shown);
    copy.args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned()).subcommands(verbs)
}
