//! node's own HTTP server.

use super::echoing::{Echoing, WHAT};
use crate::matrix::http::{helper, CURL, WRK};
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const NODE: Tool = Tool { program: "node", package: "nodejs" };

/// node, with content by curl.
pub const ROW: Row = Row {
    name: "node",
    what: WHAT,
    tools: &[NODE, CURL, WRK],
    version: Version { tool: NODE, arguments: &["--version"] },
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

const SERVER: Echoing = Echoing { name: "node", start };

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(NODE)?;
    command.arg(helper("node_server.js")).arg(port.to_string());
    run.serve("node", command, port)
}
