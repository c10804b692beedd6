//! git's own protocol: the daemon executes another program for each connection.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use super::common::{left, over, timed};
use crate::matrix::http::same;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const GIT: Tool = Tool { program: "git", package: "git" };
const SIZE: usize = 20_000_000;
const EXECUTED: &str =
    "the daemon executes git-upload-pack or git-receive-pack with the connection as its standard input \
                        and output (`stdio`)";

/// Over TCP, by git:// addresses.
pub const ROW: Row = Row {
    name: "git",
    what: "clone and push of 20 MB by git's own daemon; a client killed while it clones and one while it pushes, a killed \
           daemon's child; the repository stays sound",
    tools: &[GIT],
    version: Version { tool: GIT, arguments: &["--version"] },
    check,
    figures: &[Figure { what: "clone of 20 MB", unit: "MB/s", run: bench, reason: Some(EXECUTED) }],
};

/// Natively, in a folder.
fn git(run: &Run, folder: &str, arguments: &[&str]) -> Result<String, Error> {
    let command = configured(run.plain(GIT)?, folder, arguments);
    Ok(run.finish(&format!("git {}", arguments[0]), command)?.out.trim().to_string())
}

fn client(run: &Run, folder: &str, arguments: &[&str]) -> Result<Command, Error> {
    Ok(configured(run.client(GIT)?, folder, arguments))
}

fn configured(mut command: Command, folder: &str, arguments: &[&str]) -> Command {
    command
        .args(["-C", folder])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    command
}

/// A repository to serve, with one file.
fn start(run: &Run, port: u16) -> Result<(Process, String), Error> {
    let settings = "[user]\nname = A\nemail = a@example\n[safe]\ndirectory = *\n[init]\ndefaultBranch = main\n\
                    [core]\ncompression = 0\n[pack]\nthreads = 1\n[gc]\nauto = 0\n[maintenance]\nauto = false\n";
    run.write(".gitconfig", settings)?;
    git(run, ".", &["init", "-q", "first"])?;
    run.write_generated("first/content", SIZE)?;
    git(run, "first", &["add", "."])?;
    git(run, "first", &["commit", "-q", "-m", "first"])?;
    git(run, ".", &["clone", "-q", "--bare", "first", "served/r.git"])?;
    let mut command = run.server(GIT)?;
    command.args([
        "daemon",
        "--listen=127.0.0.1",
        "--reuseaddr",
        "--export-all",
        "--enable=receive-pack",
        "--verbose",
    ]);
    command.arg(format!("--port={port}")).arg(format!("--base-path={}", run.file("served").display()));
    let daemon = run.serve("git daemon", command, port)?;
    Ok((daemon, format!("git://127.0.0.1:{port}/r.git")))
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (daemon, url) = start(run, run.port()?)?;
    let meter = Meter::start(run, &[("git to its daemon", &daemon)])?;
    run.finish("git clone", client(run, ".", &["clone", "-q", &url, "cloned"])?)?;
    compare(run, "first/content", "cloned/content")?;
    run.write_generated("cloned/more", SIZE + 1)?;
    git(run, "cloned", &["add", "."])?;
    git(run, "cloned", &["commit", "-q", "-m", "second"])?;
    run.finish("git push", client(run, "cloned", &["push", "-q", "origin", "main"])?)?;
    let head = git(run, "cloned", &["rev-parse", "HEAD"])?;
    sound(run, &head)?;
    run.finish("git clone", client(run, ".", &["clone", "-q", &url, "again"])?)?;
    compare(run, "cloned/more", "again/more")?;
    let legs = left(run, meter.legs(4 * SIZE as u64, 3)?, "stdio", EXECUTED)?;

    killed(run, &daemon, &url)?;
    sound(run, &head)?;
    run.finish("git clone", client(run, ".", &["clone", "-q", &url, "last"])?)?;
    compare(run, "cloned/more", "last/more")?;
    Ok(legs)
}

fn killed(run: &Run, daemon: &Process, url: &str) -> Result<(), Error> {
    let connected = || Ok(!children(child_of(daemon.pid())).is_empty());
    let cloning = run.start("git clone", client(run, ".", &["clone", "-q", url, "killed"])?)?;
    run.await_that("a child of the daemon serves", connected)?;
    signal(cloning.pid(), Signal::SIGKILL)?;
    over(cloning)?;
    quiet(run, daemon)?;

    git(run, "again", &["commit", "-q", "--allow-empty", "-m", "third"])?;
    run.write_generated("again/third", SIZE + 2)?;
    git(run, "again", &["add", "."])?;
    git(run, "again", &["commit", "-q", "-m", "third"])?;
    let pushing = run.start("git push", client(run, "again", &["push", "-q", "origin", "main:other"])?)?;
    run.await_that("a child of the daemon serves", connected)?;
    signal(pushing.pid(), Signal::SIGKILL)?;
    over(pushing)?;
    quiet(run, daemon)?;

    let cloning = run.start("git clone", client(run, ".", &["clone", "-q", url, "cut_off"])?)?;
    run.await_that("a child of the daemon serves", connected)?;
    // It may have sent everything already: then the client ends well.
    for victim in children(child_of(daemon.pid())) {
        let _ = signal(victim, Signal::SIGKILL);
    }
    over(cloning)?;
    quiet(run, daemon)
}

/// `git daemon` is git, which has started the daemon itself.
fn child_of(git: u32) -> u32 {
    children(git).first().copied().unwrap_or(git)
}

/// Waits until the daemon serves nobody.
fn quiet(run: &Run, daemon: &Process) -> Result<(), Error> {
    run.await_that("the daemon's children end", || Ok(children(child_of(daemon.pid())).is_empty()))
}

/// The served repository has this commit, and nothing in it is broken.
fn sound(run: &Run, head: &str) -> Result<(), Error> {
    git(run, "served/r.git", &["fsck", "--full", "--strict"])?;
    let served = git(run, "served/r.git", &["rev-parse", "main"])?;
    Error::unless(served == head, || format!("main is {served} at the server, and was pushed as {head}"))
}

fn compare(run: &Run, expected: &str, arrived: &str) -> Result<(), Error> {
    let read = |name: &str| fs::read(run.file(name)).map_err(Error::system(name));
    same(arrived, &read(expected)?, &read(arrived)?)
}

fn bench(run: &Run) -> Result<Measured, Error> {
    let (daemon, url) = start(run, run.port()?)?;
    let meter = Meter::start(run, &[("git to its daemon", &daemon)])?;
    let (value, _) =
        timed(run, "git clone", client(run, ".", &["clone", "-q", &url, "cloned"])?, SIZE as u64)?;
    compare(run, "first/content", "cloned/content")?;
    let legs = left(run, meter.legs(SIZE as u64, 1)?, "stdio", EXECUTED)?;
    Ok(Measured { value, legs })
}
