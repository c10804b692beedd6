//! haproxy in front of nginx.

use crate::matrix::http::{self, download, killed_client, killed_server, upload, CURL, PYTHON, SLOWLY, WRK};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::Run;
use crate::matrix::tool::{Tool, Version};
use crate::matrix::web::nginx::{self, upstream, NGINX};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const HAPROXY: Tool = Tool { program: "haproxy", package: "haproxy" };

/// Files from nginx, uploads to a server of Python.
pub const ROW: Row = Row {
    name: "haproxy",
    what: "50 MB of files of an nginx behind it; uploads of 50 MB to a slow server; slow readers; a killed client, a \
           killed proxy",
    tools: &[HAPROXY, NGINX, CURL, WRK, PYTHON],
    version: Version { tool: HAPROXY, arguments: &["-v"] },
    check,
    figures: &[
        Figure {
            what: "1 KiB of nginx, 1 connection",
            unit: "requests/s",
            run: |run| files(run, 1),
            reason: None,
        },
        Figure {
            what: "1 KiB of nginx, 16 connections",
            unit: "requests/s",
            run: |run| files(run, 16),
            reason: None,
        },
    ],
};

fn start(run: &Run, port: u16, files: u16, uploads: u16) -> Result<Process, Error> {
    let text = format!(
        "global
           maxconn 1000
         defaults
           mode http
           timeout connect 60s
           timeout client 60s
           timeout server 60s
         frontend all
           bind 127.0.0.1:{port}
           use_backend uploads if {{ path_beg /up/ }}
           default_backend files
         backend files
           http-reuse always
           server nginx 127.0.0.1:{files}
         backend uploads
           server python 127.0.0.1:{uploads}\n"
    );
    let file = run.write("haproxy.conf", text)?;
    let mut command = run.server(HAPROXY)?;
    command.arg("-f").arg(file).arg("-db");
    run.serve("haproxy", command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let content = run.write_generated("sent", run.size())?;
    let [port, files, uploads] = [run.port()?, run.port()?, run.port()?];
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let nginx = nginx::start(run, "nginx", files, "", "")?;
    let upstream = upstream(run, uploads)?;
    let haproxy = start(run, port, files, uploads)?;

    let meter = Meter::start(run, &[("curl to haproxy", &haproxy), ("haproxy to nginx", &nginx)])?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    let mut legs = meter.legs_of(&[(2 * run.size() as u64, 2), (2 * run.size() as u64, 1)])?;

    let meter = Meter::start(run, &[("curl, uploading", &haproxy), ("haproxy to the receiver", &upstream)])?;
    upload(run, &url("up/sent"), "sent", &[])?;
    upload(run, &url("up/sent?slow"), "sent", &[])?;
    legs.extend(meter.legs_of(&[(2 * run.size() as u64, 2), (2 * run.size() as u64, 1)])?);

    killed_client(run, &url("sent"), &content)?;
    killed_client(run, &url("up/sent"), &content)?;
    killed_server(run, &url("up/"), &[upstream.pid()])?;
    killed_server(run, &url(""), &[haproxy.pid()])?;
    Ok(legs)
}

fn files(run: &Run, connections: u32) -> Result<Measured, Error> {
    let [port, files] = [run.port()?, run.port()?];
    run.write_generated("file", 1024)?;
    let nginx = nginx::start(run, "nginx", files, "", "")?;
    let haproxy = start(run, port, files, files)?;
    let meter = Meter::start(run, &[("wrk to haproxy", &haproxy), ("haproxy to nginx", &nginx)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/file"))?;
    let legs = meter.legs_of(&[(load.bytes, connections.into()), (load.bytes, 1)])?;
    Ok(Measured { value: load.rate, legs })
}
