//! nginx: files, and a proxy in front of another server.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::matrix::http::{
    self, curl, download, helper, killed_client, killed_server, same, upload, CURL, PYTHON, SLOWLY, WRK,
};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, is_root, signal, Run, LIMIT};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

/// Debian's smallest one will do.
pub const NGINX: Tool = Tool { program: "nginx", package: "nginx-light" };
/// Of the file that is fetched again and again while nginx reads its configuration anew.
const PIECE: usize = 300_000;
const FETCHES: usize = 200;

/// Files and proxy, workers as nobody when root runs it.
pub const ROW: Row = Row {
    name: "nginx",
    what: "50 MB of files; uploads of 50 MB through the proxy, buffered and not, to a slow upstream; slow readers; reload \
           under load; a killed client, a killed worker; workers as nobody",
    tools: &[NGINX, CURL, WRK, PYTHON],
    version: Version { tool: NGINX, arguments: &["-v"] },
    check,
    figures: &[
        Figure { what: "1 KiB, 1 connection", unit: "requests/s", run: |run| files(run, 1, 1024), reason: None },
        Figure { what: "1 KiB, 32 connections", unit: "requests/s", run: |run| files(run, 32, 1024), reason: None },
        Figure { what: "100 KiB, 8 connections", unit: "requests/s", run: |run| files(run, 8, 100 << 10), reason: None },
        Figure { what: "1 MiB, 8 connections", unit: "requests/s", run: |run| files(run, 8, 1 << 20), reason: None },
        Figure { what: "1 KiB through the proxy, 8 connections", unit: "requests/s", run: proxied, reason: None },
    ],
};

/// Starts nginx with one server on the port: lines of its own, and lines beside it.
pub fn start(run: &Run, name: &str, port: u16, server: &str, beside: &str) -> Result<Process, Error> {
    let folder = run.path().display();
    let user = if is_root() { "user nobody nogroup;" } else { "" };
    let text = format!(
        "{user} daemon off; worker_processes 2; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; keepalive_requests 1000000000; client_max_body_size 0;
           client_body_temp_path {folder}/{name}.body; proxy_temp_path {folder}/{name}.proxied;
           fastcgi_temp_path {folder}/{name}.f; uwsgi_temp_path {folder}/{name}.u; scgi_temp_path {folder}/{name}.s;
           {beside}
           server {{ listen 127.0.0.1:{port}; root {folder}; {server} }}
         }}"
    );
    let file = run.write(&format!("{name}.conf"), text)?;
    let mut command = run.server(NGINX)?;
    command.arg("-p").arg(run.path()).arg("-c").arg(file).args(["-e", "stderr"]);
    run.serve(name, command, port)
}

/// The Python server of `compat-tests/matrix`.
pub fn upstream(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(PYTHON)?;
    command.arg(helper("upstream.py")).arg(port.to_string());
    run.serve("upstream", command, port)
}

/// Locations that pass to an upstream, buffered and not.
pub fn passing(port: u16) -> String {
    format!(
        "location /buffered/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_http_version 1.1; }}
         location /streamed/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_http_version 1.1;
                                proxy_request_buffering off; proxy_buffering off; }}"
    )
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, port, behind) = (run.write_generated("sent", run.size())?, run.port()?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let upstream = upstream(run, behind)?;
    let nginx = start(run, "nginx", port, &passing(behind), "")?;

    let meter = Meter::start(run, &[("curl to nginx", &nginx)])?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    let mut legs = meter.legs(2 * run.size() as u64, 2)?;

    let chain = [("curl to the proxy", &nginx), ("proxy to its upstream", &upstream)];
    let meter = Meter::start(run, &chain)?;
    for location in ["buffered", "streamed"] {
        upload(run, &url(&format!("{location}/sent")), "sent", &[])?;
        upload(run, &url(&format!("{location}/sent?slow")), "sent", &[])?;
        download(run, &url(&format!("{location}/sent")), SLOWLY, &content)?;
    }
    legs.extend(meter.legs(6 * run.size() as u64, 6)?);

    reloads(run, &nginx, &url("piece"))?;
    killed_client(run, &url("sent"), &content)?;
    killed_client(run, &url("streamed/sent"), &content)?;
    // Which of the workers serves is not known. The master starts others.
    killed_server(run, &url(""), &children(nginx.pid()))?;
    download(run, &url("sent"), None, &content)?;
    killed_server(run, &url("streamed/"), &children(nginx.pid()))?;
    download(run, &url("streamed/sent"), None, &content)?;
    killed_server(run, &url("streamed/"), &[upstream.pid()])?;
    fine(&run.file("nginx.log"))?;
    Ok(legs)
}

/// Transfers go on, and all are whole, while nginx reads its configuration again and again.
fn reloads(run: &Run, nginx: &Process, url: &str) -> Result<(), Error> {
    let piece = run.write_generated("piece", PIECE)?;
    let mut command = curl(run, &["-o", "pieces/#1", "--create-dirs"])?;
    command.arg(format!("{url}?[1-{FETCHES}]"));
    let mut client = run.start("curl, many times", command)?;
    for _ in 0..100 {
        if client.still_runs().is_err() {
            break;
        }
        signal(nginx.pid(), Signal::SIGHUP)?;
        sleep(Duration::from_millis(50));
    }
    client.finish(LIMIT)?;
    for number in 1..=FETCHES {
        let file = run.file(&format!("pieces/{number}"));
        same(
            "a file fetched during reloads",
            &piece,
            &fs::read(&file).map_err(Error::system(file.display()))?,
        )?;
    }
    Ok(())
}

/// A worker that crashed is started anew, so only the log tells.
fn fine(log: &Path) -> Result<(), Error> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let bad = text.lines().find(|line| line.contains("exited on signal") && !line.contains("signal 9"));
    Error::unless(bad.is_none(), || bad.unwrap_or_default().to_string())
}

fn files(run: &Run, connections: u32, size: usize) -> Result<Measured, Error> {
    let port = run.port()?;
    run.write_generated("file", size)?;
    let nginx = start(run, "nginx", port, "", "")?;
    let meter = Meter::start(run, &[("wrk to nginx", &nginx)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/file"))?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, connections.into())? })
}

/// nginx in front of nginx, with connections between them that stay.
fn proxied(run: &Run) -> Result<Measured, Error> {
    let (port, behind) = (run.port()?, run.port()?);
    run.write_generated("file", 1024)?;
    let back = start(run, "back", behind, "", "")?;
    let passing =
        "location / { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; }";
    let beside = format!("upstream back {{ server 127.0.0.1:{behind}; keepalive 16; }}");
    let front = start(run, "front", port, passing, &beside)?;
    let meter = Meter::start(run, &[("wrk to the proxy", &front), ("proxy to its upstream", &back)])?;
    let load = http::wrk(run, 8, &format!("http://127.0.0.1:{port}/file"))?;
    Ok(Measured { value: load.rate, legs: meter.legs_of(&[(load.bytes, 8), (load.bytes, 1)])? })
}
