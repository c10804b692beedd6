//! Runtimes with an application of ours, which gives and takes `sent`, sends back what it is sent (`echo`), and has `1k`.

use std::fs;

use crate::matrix::http::{self, curl, download, killed_client, killed_server, same, upload, SLOWLY};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::Run;
use crate::matrix::Measured;
use crate::measure::process::Process;
use crate::measure::Error;

/// What [`Echoing::check`] does.
pub const WHAT: &str =
    "50 MB down, up and echoed as it comes, slow readers on both sides; a killed client, a killed server";

/// Such a server: its name, and what starts it at a port.
pub struct Echoing {
    pub name: &'static str,
    pub start: fn(&Run, u16) -> Result<Process, Error>,
}

impl Echoing {
    pub fn check(&self, run: &Run) -> Result<Vec<Leg>, Error> {
        let (content, port) = (run.write_generated("sent", run.size())?, run.port()?);
        let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
        let server = (self.start)(run, port)?;
        let meter = Meter::start(run, &[(&format!("curl to {}", self.name), &server)])?;
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
        killed_server(run, &url(""), &[server.pid()])?;
        Ok(legs)
    }

    /// A second's, of 1 KiB each.
    pub fn requests(&self, run: &Run, connections: u32) -> Result<Measured, Error> {
        let port = run.port()?;
        let server = (self.start)(run, port)?;
        let meter = Meter::start(run, &[(&format!("wrk to {}", self.name), &server)])?;
        let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/1k"))?;
        Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, connections.into())? })
    }
}
