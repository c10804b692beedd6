//! What several rows need: another user, helpers that say what they have moved, clients that must not end well.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use nix::unistd::User;

use crate::combo::LOST;
use crate::matrix::http::{helper, PYTHON};
use crate::matrix::legs::Leg;
use crate::matrix::run::{is_root, Run, LIMIT};
use crate::matrix::tool::Tool;
use crate::measure::process::{Finished, Process};
use crate::measure::scratch::await_answer;
use crate::measure::Error;

/// For pipes between a client and something slow.
pub const SHELL: Tool = Tool { program: "/bin/sh", package: "dash" };

/// Has a server that refuses to be root run as one of these users, the first that there is; others stay what they are.
///
/// # Errors
/// There is none.
pub fn not_as_root(run: &Run, command: &mut Command, users: &[&str]) -> Result<(), Error> {
    if !is_root() {
        return Ok(());
    }
    let found = users.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = found.ok_or_else(|| Error::Wrong(format!("no user {}", users.join(" or "))))?;
    command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    lost_by_all(run)
}

/// Has servers that change their user able to tell of a lost wake-up.
///
/// # Errors
/// The file cannot be written.
pub fn lost_by_all(run: &Run) -> Result<(), Error> {
    let lost = run.file(LOST);
    if !lost.exists() {
        run.write(LOST, "")?;
    }
    fs::set_permissions(&lost, Permissions::from_mode(0o666)).map_err(Error::system(lost.display()))
}

/// A Python program of `compat-tests/matrix` on the connecting side.
///
/// # Errors
/// Python is not installed.
pub fn python(run: &Run, script: &str, arguments: &[&str]) -> Result<Command, Error> {
    let mut command = run.client(PYTHON)?;
    command.arg(helper(script)).args(arguments);
    Ok(command)
}

/// Runs such a program to its end, and reads what it says: how many bytes it has moved, over how many connections.
///
/// # Errors
/// It fails, hangs, or says something else.
pub fn moved(run: &Run, script: &str, arguments: &[&str]) -> Result<(u64, u64), Error> {
    let what = format!("{script} {}", arguments[0]);
    let said = run.finish(&what, python(run, script, arguments)?)?.out;
    let numbers: Option<Vec<u64>> = said.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([bytes, connections]) => Ok((*bytes, *connections)),
        _ => Err(Error::words(what, &said)),
    }
}

/// Waits for a client that was cut off: it must end, and not well, with one of these words.
///
/// # Errors
/// It goes on, ends well, or says none of that.
pub fn told(client: Process, words: &[&str]) -> Result<(), Error> {
    match client.finish(LIMIT) {
        Err(Error::Ended { words: said, .. }) if words.iter().any(|word| said.contains(word)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            Err(Error::Wrong(format!("a client that was cut off ended well, without {}", words.join(" or "))))
        }
    }
}

/// Waits for a client that was cut off: it must end within the limit, however.
///
/// # Errors
/// It goes on.
pub fn over(mut client: Process) -> Result<(), Error> {
    let ended = await_answer(LIMIT, || Ok(client.still_runs().is_err().then_some(())))?;
    ended.ok_or_else(|| Error::Wrong("a client that was cut off goes on for ever".into()))
}

/// Legs that stay on TCP for this reason, which must be the one that the server's side tells.
///
/// # Errors
/// It tells another one, or none.
pub fn left(run: &Run, legs: Vec<Leg>, code: &str, reason: &'static str) -> Result<Vec<Leg>, Error> {
    for leg in &legs {
        let tells = leg.on_tcp.split(", ").any(|count| count.split(' ').nth(1) == Some(code));
        Error::unless(tells || !run.is_shimmed(), || {
            format!("{}: left on TCP: {}, and not for the reason `{code}`", leg.name, leg.on_tcp)
        })?;
    }
    Ok(legs.into_iter().map(|leg| leg.excused(reason)).collect())
}

/// How many bytes a second a program has moved that tells of no time itself.
///
/// # Errors
/// It fails, or hangs.
pub fn timed(run: &Run, what: &str, command: Command, bytes: u64) -> Result<(f64, Finished), Error> {
    let begun = Instant::now();
    let finished = run.finish(what, command)?;
    Ok((bytes as f64 / 1e6 / begun.elapsed().as_secs_f64(), finished))
}

/// The number between these two, as strictly as that.
pub fn between<T: std::str::FromStr>(text: &str, before: &str, after: &str) -> Option<T> {
    let rest = text.split_once(before)?.1;
    rest.split_once(after)?.0.trim().parse().ok()
}
