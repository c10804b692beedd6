//! Java: com.sun.net.httpserver.HttpServer and an NIO echo, java.net.http and sockets as clients.

use std::path::{Path, PathBuf};

use crate::matrix::http::{self, helper, killed_client, killed_server, CURL, WRK};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{Run, LIMIT};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::web::hyper::parse;
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const JAVA: Tool = Tool { program: "java", package: "default-jdk-headless" };
const JAVAC: Tool = Tool { program: "javac", package: "default-jdk-headless" };

/// Server and client.
pub const ROW: Row = Row {
    name: "java",
    what: "java.net.http to HttpServer: 50 MB down, up and echoed, slow readers on both sides; NIO echo to a Socket and to a \
           SocketChannel; a killed client, a killed server",
    tools: &[JAVA, JAVAC, CURL, WRK],
    version: Version { tool: JAVA, arguments: &["--version"] },
    check,
    figures: &[
        Figure {
            what: "1 KiB of HttpServer by wrk, 8 connections",
            unit: "requests/s",
            run: by_wrk,
            reason: None,
        },
        Figure { what: "1 KiB by java.net.http", unit: "requests/s", run: by_client, reason: None },
    ],
};

/// The folder of the classes.
fn compiled(run: &Run) -> Result<PathBuf, Error> {
    let sources = ["MatrixServer.java", "MatrixClient.java"].map(helper);
    let mut command = run.plain(JAVAC)?;
    command.arg("-d").arg(run.file("classes")).args(sources);
    run.finish("javac", command)?;
    Ok(run.file("classes"))
}

fn start(run: &Run, classes: &Path, port: u16, echo: u16) -> Result<Process, Error> {
    let mut command = run.server(JAVA)?;
    command.arg("-Dsun.net.httpserver.nodelay=true").arg("-cp").arg(classes);
    command.args(["MatrixServer", &port.to_string(), &echo.to_string()]);
    run.serve("java server", command, echo)
}

fn client(run: &Run, classes: &Path, words: &[&str]) -> Result<String, Error> {
    let mut command = run.client(JAVA)?;
    command.arg("-cp").arg(classes).arg("MatrixClient").args(words);
    Ok(run.start("java client", command)?.finish(LIMIT + run.time())?.out)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, classes) = (run.write_generated("sent", run.size())?, compiled(run)?);
    let [port, echo] = [run.port()?, run.port()?];
    let folder = format!("http://127.0.0.1:{port}/");
    let server = start(run, &classes, port, echo)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    let said = client(run, &classes, &["content", &port.to_string(), &echo.to_string(), "sent"])?;
    Error::unless(said.trim() == "right", || format!("java client: {said}"))?;
    // One connection that stays of HTTP, two of the echo; six times the content by HTTP, twice two echoes.
    let legs = meter.legs(10 * run.size() as u64, 3)?;
    killed_client(run, &format!("{folder}sent"), &content)?;
    killed_server(run, &folder, &[server.pid()])?;
    Ok(legs)
}

fn by_wrk(run: &Run) -> Result<Measured, Error> {
    let classes = compiled(run)?;
    let [port, echo] = [run.port()?, run.port()?];
    let server = start(run, &classes, port, echo)?;
    let meter = Meter::start(run, &[("wrk to server", &server)])?;
    let load = http::wrk(run, 8, &format!("http://127.0.0.1:{port}/1k"))?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, 8)? })
}

fn by_client(run: &Run) -> Result<Measured, Error> {
    let classes = compiled(run)?;
    let [port, echo] = [run.port()?, run.port()?];
    let server = start(run, &classes, port, echo)?;
    let meter = Meter::start(run, &[("client to server", &server)])?;
    let (count, seconds) = parse(&client(run, &classes, &["rate", &port.to_string(), &run.seconds()])?)?;
    Ok(Measured { value: count as f64 / seconds, legs: meter.legs(count * 1024, 1)? })
}
