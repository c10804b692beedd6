//! uvicorn: asyncio, and HTTP in Python.

use super::echoing::{Echoing, WHAT};
use crate::matrix::http::{helper, CURL, PYTHON, WRK};
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const UVICORN: Tool =
    Tool { program: "/usr/lib/python3/dist-packages/uvicorn/__init__.py", package: "python3-uvicorn" };

/// An application of our own.
pub const ROW: Row = Row {
    name: "uvicorn",
    what: WHAT,
    tools: &[UVICORN, PYTHON, CURL, WRK],
    version: Version { tool: PYTHON, arguments: &["-c", "import uvicorn; print(uvicorn.__version__)"] },
    check: |run| SERVER.check(run),
    figures: &[
        Figure {
            what: "1 KiB, 8 connections",
            unit: "requests/s",
            run: |run| SERVER.requests(run, 8),
            reason: None,
        },
        Figure {
            what: "1 KiB, 1 connection",
            unit: "requests/s",
            run: |run| SERVER.requests(run, 1),
            reason: None,
        },
    ],
};

const SERVER: Echoing = Echoing { name: "uvicorn", start };

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
