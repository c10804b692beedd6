//! Apache, whose listener thread sleeps in the epoll set to which workers give connections back (event), or whose processes
//! serve one connection each (prefork).

use crate::matrix::http::{self, download, killed_client, killed_server, upload, CURL, PYTHON, SLOWLY, WRK};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, is_root, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::web::nginx::upstream;
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const APACHE: Tool = Tool { program: "apache2", package: "apache2" };
const VERSION: Version = Version { tool: APACHE, arguments: &["-v"] };
const TOOLS: &[Tool] = &[APACHE, CURL, WRK, PYTHON];
const WHAT: &str =
    "50 MB of files; uploads of 50 MB through mod_proxy to a slow upstream; slow readers; a killed client, \
                    killed workers";

/// With threads that hand connections on.
pub const EVENT: Row = Row {
    name: "apache_event",
    what: WHAT,
    tools: TOOLS,
    version: VERSION,
    check: |run| check(run, "event"),
    figures: &[
        Figure {
            what: "1 KiB, 1 connection",
            unit: "requests/s",
            run: |run| files(run, "event", 1),
            reason: None,
        },
        Figure {
            what: "1 KiB, 16 connections",
            unit: "requests/s",
            run: |run| files(run, "event", 16),
            reason: None,
        },
    ],
};

/// With processes.
pub const PREFORK: Row = Row {
    name: "apache_prefork",
    what: WHAT,
    tools: TOOLS,
    version: VERSION,
    check: |run| check(run, "prefork"),
    figures: &[
        Figure {
            what: "1 KiB, 1 connection",
            unit: "requests/s",
            run: |run| files(run, "prefork", 1),
            reason: None,
        },
        Figure {
            what: "1 KiB, 16 connections",
            unit: "requests/s",
            run: |run| files(run, "prefork", 16),
            reason: None,
        },
    ],
};

fn start(run: &Run, mpm: &str, port: u16, behind: u16) -> Result<Process, Error> {
    let folder = run.path().display();
    let user = if is_root() { "User nobody\nGroup nogroup" } else { "" };
    let module = |name: &str| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
    let modules: String =
        [&format!("mpm_{mpm}"), "authz_core", "proxy", "proxy_http"].map(|name: &str| module(name)).concat();
    let text = format!(
        "{modules}
         {user}
         ServerName localhost
         Listen 127.0.0.1:{port}
         PidFile {folder}/apache.pid
         DefaultRuntimeDir {folder}
         ErrorLog {folder}/apache.log
         DocumentRoot {folder}
         KeepAlive On
         MaxKeepAliveRequests 0
         KeepAliveTimeout 60
         StartServers 2
         <IfModule mpm_prefork_module>
           StartServers 20
           MinSpareServers 20
           MaxSpareServers 40
         </IfModule>
         ProxyPass /behind/ http://127.0.0.1:{behind}/
         <Directory {folder}>
           Require all granted
         </Directory>\n"
    );
    let file = run.write("apache.conf", text)?;
    let mut command = run.server(APACHE)?;
    command.arg("-f").arg(file).args(["-D", "FOREGROUND"]);
    run.serve("apache", command, port)
}

fn check(run: &Run, mpm: &str) -> Result<Vec<Leg>, Error> {
    let (content, port, behind) = (run.write_generated("sent", run.size())?, run.port()?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let upstream = upstream(run, behind)?;
    let apache = start(run, mpm, port, behind)?;

    let meter = Meter::start(run, &[("curl to apache", &apache)])?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    let mut legs = meter.legs(2 * run.size() as u64, 2)?;

    let chain = [("curl to the proxy", &apache), ("proxy to its upstream", &upstream)];
    let meter = Meter::start(run, &chain)?;
    upload(run, &url("behind/sent"), "sent", &[])?;
    upload(run, &url("behind/sent?slow"), "sent", &[])?;
    download(run, &url("behind/sent"), SLOWLY, &content)?;
    // The proxy keeps its connection and uses it again.
    legs.extend(meter.legs_of(&[(3 * run.size() as u64, 3), (3 * run.size() as u64, 1)])?);

    killed_client(run, &url("sent"), &content)?;
    killed_client(run, &url("behind/sent"), &content)?;
    killed_server(run, &url(""), &children(apache.pid()))?;
    download(run, &url("sent"), None, &content)?;
    killed_server(run, &url("behind/"), &[upstream.pid()])?;
    Ok(legs)
}

fn files(run: &Run, mpm: &str, connections: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    run.write_generated("file", 1024)?;
    let apache = start(run, mpm, port, port)?;
    let meter = Meter::start(run, &[("wrk to apache", &apache)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/file"))?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.bytes, connections.into())? })
}
