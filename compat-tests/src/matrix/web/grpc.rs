//! gRPC in Python: HTTP/2 of its C++ core, with streams.

use nix::sys::signal::Signal;

use crate::matrix::http::{helper, PYTHON};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{signal, Run, LIMIT};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const GRPC: Tool =
    Tool { program: "/usr/lib/python3/dist-packages/grpc/__init__.py", package: "python3-grpcio" };
const MIB: u64 = 1 << 20;
/// Both ways: three streams of fifty messages, and the calls.
const CONTENT: u64 = 2 * 150 * MIB;

/// Server and client of Python.
pub const ROW: Row = Row {
    name: "grpc_python",
    what: "calls of 0 to 3 MiB, 200 at the same time, streams of 1 MiB both ways, slow on either side; a killed client, a \
           killed server",
    tools: &[GRPC, PYTHON],
    version: Version { tool: PYTHON, arguments: &["-c", "import grpc; print(grpc.__version__)"] },
    check,
    figures: &[
        Figure {
            what: "calls of 100 bytes",
            unit: "calls/s",
            run: |run| figure(run, "small", 100),
            reason: None,
        },
        Figure { what: "calls of 1 MiB", unit: "calls/s", run: |run| figure(run, "large", MIB), reason: None },
        Figure {
            what: "streams of 1 MiB messages both ways",
            unit: "messages/s",
            run: |run| figure(run, "streamed", MIB),
            reason: None,
        },
    ],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(PYTHON)?;
    command.arg(helper("grpc_server.py")).arg(port.to_string());
    run.serve("grpc server", command, port)
}

fn client(run: &Run, port: u16, mode: &str) -> Result<Process, Error> {
    let mut command = run.client(PYTHON)?;
    command.arg(helper("grpc_client.py")).args([&port.to_string(), mode, &run.seconds()]);
    run.start(&format!("grpc client, {mode}"), command)
}

fn content(run: &Run, port: u16) -> Result<(), Error> {
    let said = client(run, port, "content")?.finish(LIMIT)?.out;
    Error::unless(said.trim() == "right", || format!("grpc client: {said}"))
}

/// A client in the middle of a stream.
fn streaming(run: &Run, port: u16) -> Result<Process, Error> {
    let mut client = client(run, port, "streaming")?;
    run.await_that("the stream begins", || {
        client.still_runs()?;
        Ok(client.said().contains("begun"))
    })?;
    Ok(client)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let port = run.port()?;
    let server = start(run, port)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    content(run, port)?;
    let legs = meter.legs(CONTENT, 1)?;
    signal(streaming(run, port)?.pid(), Signal::SIGKILL)?;
    content(run, port)?;
    let client = streaming(run, port)?;
    signal(server.pid(), Signal::SIGKILL)?;
    match client.finish(LIMIT) {
        Err(Error::Ended { words, .. }) if words.contains("UNAVAILABLE") => Ok(legs),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Wrong("the client's stream ended well, and its server was killed".into())),
    }
}

fn figure(run: &Run, mode: &str, size: u64) -> Result<Measured, Error> {
    let port = run.port()?;
    let server = start(run, port)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    let said = client(run, port, mode)?.finish(LIMIT + run.time())?.out;
    let (value, count) = parse(&said)?;
    Ok(Measured { value, legs: meter.legs(2 * count * size, 1)? })
}

/// `532.1 a second, 1064 in all`
pub(in crate::matrix) fn parse(said: &str) -> Result<(f64, u64), Error> {
    let unknown = || Error::words("grpc_client.py", said);
    let line = said.trim().strip_suffix(" in all").ok_or_else(unknown)?;
    let (value, count) = line.split_once(" a second, ").ok_or_else(unknown)?;
    match (value.parse::<f64>(), count.parse()) {
        (Ok(value), Ok(count)) if value.is_finite() => Ok((value, count)),
        _ => Err(unknown()),
    }
}
