//! rsync's daemon, which forks for each connection and executes nothing.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;

use super::common::{between, over, timed};
use crate::matrix::http::same;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, is_root, signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;
use crate::tools::generated;

const RSYNC: Tool = Tool { program: "rsync", package: "rsync" };
const FILES: usize = 200;
const BIG: usize = 30_000_000;

/// By the daemon's own protocol over TCP.
pub const ROW: Row = Row {
    name: "rsync",
    what:
        "a tree of 200 files and 30 MB both ways; a killed client and a killed daemon's child, each resumed",
    tools: &[RSYNC],
    version: Version { tool: RSYNC, arguments: &["--version"] },
    check,
    figures: &[Figure { what: "fetching a tree of 90 MB", unit: "MB/s", run: bench, reason: None }],
};

/// The same in every run.
fn tree(run: &Run, big: usize) -> Result<u64, Error> {
    let content = generated(big);
    let mut sum = 0;
    for number in 0..FILES {
        let folder = format!("tree/{}", number % 10);
        fs::create_dir_all(run.file(&folder)).map_err(Error::system(&folder))?;
        let length = number * 7919 % 100_000;
        run.write(&format!("{folder}/{number}"), &content[number..number + length])?;
        sum += length;
    }
    run.write("tree/big", &content)?;
    fs::create_dir_all(run.file("up")).map_err(Error::system("up"))?;
    Ok((sum + big) as u64)
}

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let folder = run.path().display();
    let user = if is_root() { "uid = 0\ngid = 0\n" } else { "" };
    let text = format!(
        "use chroot = no\n{user}pid file = {folder}/rsync.pid\nlog file = {folder}/rsync.log\n\
         [tree]\npath = {folder}/tree\n[up]\npath = {folder}/up\nread only = no\n"
    );
    let file = run.write("rsync.conf", text)?;
    let mut command = run.server(RSYNC)?;
    command.args(["--daemon", "--no-detach", "--address=127.0.0.1", &format!("--port={port}")]);
    command.arg(format!("--config={}", file.display()));
    run.serve("rsync daemon", command, port)
}

fn client(run: &Run, more: &[&str], from: &str, to: &str) -> Result<std::process::Command, Error> {
    let mut command = run.client(RSYNC)?;
    command
        .args(["-a", "--checksum", "--whole-file", "--stats", "--no-human-readable"])
        .args(more)
        .args([from, to]);
    Ok(command)
}

/// Every file of the one is the same in the other.
fn compare(run: &Run, copy: &str) -> Result<(), Error> {
    let read = |file: &Path| fs::read(file).map_err(Error::system(file.display()));
    for number in 0..FILES {
        let name = format!("{}/{number}", number % 10);
        same(&name, &read(&run.file("tree").join(&name))?, &read(&run.file(copy).join(&name))?)?;
    }
    same("big", &read(&run.file("tree/big"))?, &read(&run.file(copy).join("big"))?)
}

fn empty(run: &Run, folder: &str) -> Result<(), Error> {
    fs::remove_dir_all(run.file(folder)).map_err(Error::system(folder))?;
    fs::create_dir(run.file(folder)).map_err(Error::system(folder))
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (port, size) = (run.port()?, tree(run, BIG)?);
    let daemon = start(run, port)?;
    let url = |module: &str| format!("rsync://127.0.0.1:{port}/{module}/");
    let meter = Meter::start(run, &[("rsync to its daemon", &daemon)])?;
    run.finish("rsync, down", client(run, &[], &url("tree"), "down/")?)?;
    compare(run, "down")?;
    run.finish("rsync, up", client(run, &[], "tree/", &url("up"))?)?;
    compare(run, "up")?;
    let legs = meter.legs(2 * size, 2)?;

    for (from, to, copy) in
        [(url("tree"), "down/".to_string(), "down"), ("tree/".to_string(), url("up"), "up")]
    {
        for victim in ["client", "daemon's child"] {
            empty(run, copy)?;
            let slowly = client(run, &["--bwlimit=10M", "--partial"], &from, &to)?;
            let process = run.start("rsync, slowly", slowly)?;
            run.await_that("the big file is on its way", || begun(run, copy))?;
            let victims = if victim == "client" { vec![process.pid()] } else { children(daemon.pid()) };
            victims.iter().try_for_each(|victim| signal(*victim, Signal::SIGKILL))?;
            over(process)?;
            run.finish("rsync, resumed", client(run, &["--partial"], &from, &to)?)?;
            compare(run, copy)?;
        }
    }
    Ok(legs)
}

/// rsync writes into a hidden file first.
fn begun(run: &Run, copy: &str) -> Result<bool, Error> {
    let entries = fs::read_dir(run.file(copy)).map_err(Error::system(copy))?.flatten();
    Ok(entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".big."))
        .any(|entry| entry.metadata().is_ok_and(|file| file.len() > 500_000)))
}

fn bench(run: &Run) -> Result<Measured, Error> {
    let (port, size) = (run.port()?, tree(run, 80_000_000)?);
    let daemon = start(run, port)?;
    let meter = Meter::start(run, &[("rsync to its daemon", &daemon)])?;
    let command = client(run, &[], &format!("rsync://127.0.0.1:{port}/tree/"), "down/")?;
    let (value, finished) = timed(run, "rsync", command, size)?;
    let told: u64 = between(&finished.out, "Total transferred file size: ", " bytes")
        .ok_or_else(|| Error::words("rsync", &finished.out))?;
    Error::unless(told == size, || format!("rsync transferred {told} bytes of {size}"))?;
    Ok(Measured { value, legs: meter.legs(size, 1)? })
}
