//! node's own HTTP server.

use std::fs;

use crate::matrix::http::{
    self, curl, download, helper, killed_client, killed_server, same, upload, CURL, SLOWLY, WRK,
};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const NODE: Tool = Tool { program: "node", package: "nodejs" };

/// node, with content by curl.
pub const ROW: Row = Row {
    name: "node",
    what:
        "50 MB down, up and echoed as it comes, slow readers on both sides; a killed client, a killed server",
    tools: &[NODE, CURL, WRK],
    version: Version { tool: NODE, arguments: &["--version"] },
    check,
    figures: &[
        Figure {
            what: "1 KiB, 8 connections",
            unit: "requests/s",
            run: |run| requests(run, 8),
            reason: None,
        },
        Figure { what: "1 KiB, 1 connection", unit: "requests/s", run: |run| requests(run, 1), reason: None },
    ],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(NODE)?;
    command.arg(helper("node_server.js")).arg(port.to_string());
    run.serve("node", command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, port) = (run.write_generated("sent", run.size())?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let node = start(run, port)?;
    let meter = Meter::start(run, &[("curl to node", &node)])?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    upload(run, &url("sent"), "sent", &[])?;
    upload(run, &url("sent?slow"), "sent", &[])?;
    let mut echo = curl(run, &["-X", "POST", "-H", "Expect:", "-T", "sent", "-o", "echoed"])?;
    echo.arg(url("echo"));
    run.finish("curl, echo", echo)?;
    same("echo", &content, &fs::read(run.file("echoed")).map_err(Error::system("echoed"))?)?;
    let legs = meter.legs(6 * run.size() as u64, 5)?;
    killed_client(run, &url("sent"), &content)?;
    killed_server(run, &url(""), &[node.pid()])?;
    Ok(legs)
}

fn requests(run: &Run, connections: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    let node = start(run, port)?;
    let meter = Meter::start(run, &[("wrk to node", &node)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/1k"))?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, connections.into())? })
}
