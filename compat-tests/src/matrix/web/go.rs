//! A server of Go's standard library, which makes its system calls itself: its shimmed clients stay on TCP.

use std::fs;

use crate::matrix::http::{
    self, curl, download, helper, killed_client, killed_server, same, upload, CURL, SLOWLY, WRK,
};
use crate::matrix::legs::Leg;
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const GO: Tool = Tool { program: "go", package: "golang-go" };
const REASON: &str = "Go calls the kernel past the C library";

/// The server, with clients of C.
pub const ROW: Row = Row {
    name: "go",
    what: "50 MB down, up and echoed to clients with the shim, slow readers on both sides; a killed client, a killed server",
    tools: &[GO, CURL, WRK],
    version: Version { tool: GO, arguments: &["version"] },
    check,
    figures: &[Figure { what: "1 KiB, 8 connections", unit: "requests/s", run: requests, reason: None }],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let program = run.file("server");
    let mut build = run.plain(GO)?;
    // What was built for an earlier run is used again; nothing is fetched.
    build
        .env("GOCACHE", crate::programs::target_dir().join("compat/go"))
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off");
    build.arg("build").arg("-o").arg(&program).arg(helper("server.go"));
    run.finish("go build", build)?;
    let mut command = run.server_at(&program);
    command.arg(port.to_string());
    run.serve("go server", command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, port) = (run.write_generated("sent", run.size())?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let server = start(run, port)?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    upload(run, &url("sent"), "sent", &[])?;
    upload(run, &url("sent?slow"), "sent", &[])?;
    let mut echo = curl(run, &["-X", "POST", "-T", "sent", "-o", "echoed"])?;
    echo.arg(url("echo"));
    run.finish("curl, echo", echo)?;
    same("echo", &content, &fs::read(run.file("echoed")).map_err(Error::system("echoed"))?)?;
    killed_client(run, &url("sent"), &content)?;
    killed_server(run, &url(""), &[server.pid()])?;
    Ok(vec![Leg::without("curl to the server", REASON)])
}

fn requests(run: &Run) -> Result<Measured, Error> {
    let port = run.port()?;
    let _server = start(run, port)?;
    let load = http::wrk(run, 8, &format!("http://127.0.0.1:{port}/1k"))?;
    Ok(Measured { value: load.rate, legs: vec![Leg::without("wrk to the server", REASON)] })
}
