//! hyper on tokio's multi-threaded runtime, server and client: a program of ours, `compat-tests/hyper`.

use nix::sys::signal::Signal;

use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{signal, Run, LIMIT};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

/// Its place is found below the target folder.
const HYPER: Tool = Tool {
    program: "target:hyper/release/matrix-hyper",
    package:
        "run: cargo build --release --locked --manifest-path compat-tests/hyper/Cargo.toml --target-dir \
              target/hyper",
};

/// Server and client.
pub const ROW: Row = Row {
    name: "hyper",
    what: "50 MB down, up and echoed, at once and slowly, by HTTP/1 and HTTP/2; 20 streams of a connection, 100 connections; a \
           killed client, a killed server",
    tools: &[HYPER],
    version: Version { tool: HYPER, arguments: &["version"] },
    check,
    figures: &[
        Figure { what: "1 KiB, 1 connection", unit: "requests/s", run: |run| requests(run, 1), reason: None },
        Figure {
            what: "1 KiB, 100 connections",
            unit: "requests/s",
            run: |run| requests(run, 100),
            reason: None,
        },
    ],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(HYPER)?;
    command.args(["server", &port.to_string()]);
    run.serve("hyper server", command, port)
}

fn client(run: &Run, port: u16, words: &[&str]) -> Result<Process, Error> {
    let mut command = run.client(HYPER)?;
    command.args(["client", &port.to_string()]).args(words);
    run.start(&format!("hyper client, {}", words.join(" ")), command)
}

/// A client in the middle of a download.
fn holding(run: &Run, port: u16) -> Result<Process, Error> {
    let mut client = client(run, port, &["hold", "100000000000"])?;
    run.await_that("the download begins", || {
        client.still_runs()?;
        Ok(client.said().contains("begun"))
    })?;
    Ok(client)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (port, length) = (run.port()?, run.size().to_string());
    let server = start(run, port)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    let said = client(run, port, &["content", &length])?.finish(LIMIT)?.out;
    Error::unless(said.trim() == "right", || format!("hyper client: {said}"))?;
    // Of each kind two down, two up, two echoes; then one echo by streams and one by connections.
    let legs = meter.legs(20 * run.size() as u64, 103)?;
    for _ in 0..5 {
        signal(holding(run, port)?.pid(), Signal::SIGKILL)?;
    }
    let client = holding(run, port)?;
    signal(server.pid(), Signal::SIGKILL)?;
    match client.finish(LIMIT) {
        Err(Error::Ended { status, .. }) if status == "status 1" => Ok(legs),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Wrong("the client's download ended well, and its server was killed".into())),
    }
}

fn requests(run: &Run, connections: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    let server = start(run, port)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    let client = client(run, port, &["rate", &connections.to_string(), &run.seconds()])?;
    let (count, seconds) = parse(&client.finish(LIMIT + run.time())?.out)?;
    Ok(Measured { value: count as f64 / seconds, legs: meter.legs(count * 1024, connections.into())? })
}

/// `53210 requests in 2.001 s`; others of our programs say the same.
pub(in crate::matrix) fn parse(said: &str) -> Result<(u64, f64), Error> {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.as_slice() {
        [count, "requests", "in", seconds, "s"] => match (count.parse(), seconds.parse::<f64>()) {
            (Ok(count), Ok(seconds)) if count > 0 && seconds > 0.0 && seconds.is_finite() => {
                Ok((count, seconds))
            }
            _ => Err(Error::words("the client", said)),
        },
        _ => Err(Error::words("the client", said)),
    }
}
