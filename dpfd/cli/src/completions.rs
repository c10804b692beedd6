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

/// The word after `dp run` is a program, those after `dp enable` and the like are units, as is that of `dp rules explain --unit`.
/// A unit's name is cut at @ and : by bash, which completes what is behind.
const BASH_WORDS: &str = r#"
_dp_units() {
    local manager='' line=${COMP_LINE:0:COMP_POINT} cut
    [[ " ${COMP_WORDS[*]} " != *" --user-manager "* ]] || manager=--user
    line=${line##* }
    cut=${line%"$1"}
    {
        systemctl $manager list-unit-files --type=service --no-legend --no-pager --plain
        systemctl $manager list-units --all --type=service --no-legend --no-pager --plain
    } 2>/dev/null | while read -r unit _; do
        [[ $unit != "$cut$1"* ]] || printf '%s\n' "${unit#"$cut"}"
    done | sort -u
}
_dp_with_words() {
    _dp "$@"
    case ${COMP_WORDS[1]} in
        run)
            [[ ( $3 != run && $3 != -- ) || $2 == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$2" | sort -u)
            ;;
        enable | disable | status)
            [[ $3 == --root || $2 == -* ]] || mapfile -t COMPREPLY < <(_dp_units "$2")
            ;;
        rules)
            [[ $3 != --unit ]] || mapfile -t COMPREPLY < <(_dp_units "$2")
            ;;
    esac
}
complete -F _dp_with_words -o bashdefault -o default dp
"#;

const FISH_WORDS: &str = r#"
function __fish_dp_units
    set -l manager
    if contains -- --user-manager (commandline -opc)
        set manager --user
    end
    begin
        systemctl $manager list-unit-files --type=service --no-legend --no-pager --plain
        systemctl $manager list-units --all --type=service --no-legend --no-pager --plain
    end 2>/dev/null | string match -r '^\S+' | sort -u
end
complete -c dp -n "__fish_dp_using_subcommand enable disable status" -f -a "(__fish_dp_units)"
complete -c dp -n "__fish_dp_using_subcommand rules" -l unit -x -a "(__fish_dp_units)"
complete -c dp -n "__fish_dp_using_subcommand run" -x -a "(__fish_complete_subcommand --fcs-skip=2)"
complete -c dp -n "__fish_dp_using_subcommand completions" -x -a "bash zsh fish"
"#;

/// It stands before what the script ends with, which completes at once where the script is loaded for that.
const ZSH_WORDS: &str = r#"
_dp_units() {
    local -a manager units
    (( ! ${words[(I)--user-manager]} )) || manager=(--user)
    units=(${(f)"$({
        systemctl $manager list-unit-files --type=service --no-legend --no-pager --plain
        systemctl $manager list-units --all --type=service --no-legend --no-pager --plain
    } 2>/dev/null)"})
    compadd -- ${(u)units%% *}
}
"#;
const ZSH_END: &str = "\nif [ \"$funcstack[1]\" = ";

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
    /// The script with what the generator cannot know.
    fn complete(self, script: &str) -> String {
        match self {
            Known::Bash => script.to_owned() + BASH_WORDS,
            Known::Fish => script.to_owned() + FISH_WORDS,
            Known::Zsh => {
                let is_of_units = |line: &str| {
                    line.starts_with("'*::units -- ")
                        || line.starts_with("'::unit -- ")
                        || line.contains("--unit=[")
                };
                let known = |line: &str| match is_of_units(line) {
                    true => line.replace(":_default'", ":_dp_units'"),
                    false => line.to_owned(),
                };
                let lines: String = script.split_inclusive('\n').map(known).collect();
                lines.replacen(ZSH_END, &(ZSH_WORDS.to_owned() + ZSH_END), 1)
            }
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
    match say::text(&args.shell.complete(&String::from_utf8_lossy(&script))) {
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
