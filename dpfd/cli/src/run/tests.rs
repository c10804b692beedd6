use clap::{CommandFactory, Parser};

use super::*;
use crate::{Cli, Verb};

fn parse(line: &str) -> Result<Args, clap::Error> {
    let cli = Cli::try_parse_from(["dp", "run"].into_iter().chain(line.split_whitespace()))?;
    match cli.verb {
        Verb::Run(args) => Ok(args),
        _ => unreachable!(),
    }
}

fn rules(line: &str) -> Option<String> {
    parse(line).unwrap().rules().unwrap().map(|rules| rules.to_string())
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn options_become_rules_with_exceptions_first() {
    assert_eq!(rules("p"), None);
    assert_eq!(rules("--not localhost:22 p").unwrap(), "tcp any localhost:22; channel any localhost");
    assert_eq!(rules("--connect 127.0.0.1:6379 p").unwrap(), "channel connect 127.0.0.1:6379");
    assert_eq!(
        rules("--listen *:80 --connect [::1]:1-9 --not 10.1.0.0/16 --connect 10.0.0.0/8 -- p").unwrap(),
        "tcp any 10.1.0.0/16; channel connect [::1]:1-9; channel connect 10.0.0.0/8; channel listen *:80"
    );
}

#[test]
fn what_follows_the_program_is_the_programs() {
    for line in ["p --not x -- -v --help", "-- p --not x -- -v --help"] {
        let args = parse(line).unwrap();
        assert_eq!(args.command, ["p", "--not", "x", "--", "-v", "--help"]);
        assert!(args.not.is_empty());
    }
    assert_eq!(parse("-- --odd").unwrap().command, ["--odd"]);
}

#[test]
fn bad_options_are_usage_errors_that_say_what_can_stand_there() {
    for (line, expected) in [
        ("", "<PROGRAM ARGS>"),
        ("--connect 127.0.0.1", "<PROGRAM ARGS>"),
        ("--conect 127.0.0.1 p", "--connect"),
        ("--connect 6379 p", "write *:6379 or localhost:6379"),
        ("--listen ::1 p", "brackets"),
        ("--not localhost:0 p", "write 1 to 65535"),
    ] {
        let error = parse(line).err().unwrap_or_else(|| panic!("{line:?} was taken"));
        assert_eq!(error.exit_code(), i32::from(USAGE));
        assert!(error.to_string().contains(expected), "{line:?} gave: {error}");
    }
    let many = "--not 127.0.0.1 ".repeat(129) + "p";
    assert!(parse(&many).unwrap().rules().unwrap_err().to_string().contains("at most 128 rules"));
}

#[test]
fn failures_to_execute_are_told_as_env_does() {
    let failure = |name: &str, errno| cannot_execute(Path::new(name), &io::Error::from_raw_os_error(errno));
    let (missing, forbidden) = (2, 13);
    for (name, errno, code, words) in [
        ("nosuch", missing, 127, "nosuch: not found in PATH"),
        ("./nosuch", missing, 127, "./nosuch: no such file"),
        ("/proc/self/exe", missing, 127, "its interpreter is missing"),
        ("/etc/passwd", forbidden, 126, "/etc/passwd: Permission denied"),
    ] {
        let failure = failure(name, errno);
        assert_eq!(failure.code, code, "{name}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}
