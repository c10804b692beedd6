//! uvicorn: asyncio, and HTTP in Python.

use std::fs;

use crate::matrix::http::{
    self, curl, download, helper, killed_client, killed_server, same, upload, CURL, PYTHON, SLOWLY, WRK,
};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const UVICORN: Tool =
    Tool { program: "/usr/lib/python3/dist-packages/uvicorn/__init__.py", package: "python3-uvicorn" };

/// An application of our own.
pub const ROW: Row = Row {
    name: "uvicorn",
    what:
        "50 MB down, up and echoed as it comes, slow readers on both sides; a killed client, a killed server",
    tools: &[UVICORN, PYTHON, CURL, WRK],
    version: Version { tool: PYTHON, arguments: &["-c", "import uvicorn; print(uvicorn.__version__)"] },
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
    let mut command = run.server(PYTHON)?;
    command.args([
        "-m",
        "uvicorn",
        "--log-level",
        "warning",
        "--no-access-log",
        "--timeout-keep-alive",
        "60",
    ]);
    command.arg("--app-dir").arg(helper("")).arg("--port").arg(port.to_string()).arg("asgi_app:app");
    run.serve("uvicorn", command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, port) = (run.write_generated("sent", run.size())?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let uvicorn = start(run, port)?;
    let meter = Meter::start(run, &[("curl to uvicorn", &uvicorn)])?;
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
    killed_server(run, &url(""), &[uvicorn.pid()])?;
    Ok(legs)
}

fn requests(run: &Run, connections: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    let uvicorn = start(run, port)?;
    let meter = Meter::start(run, &[("wrk to uvicorn", &uvicorn)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/1k"))?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, connections.into())? })
}
