//! php-fpm behind nginx, FastCGI over TCP.

use std::fs;
use std::path::Path;

use crate::matrix::http::{self, download, helper, killed_client, killed_server, upload, CURL, SLOWLY, WRK};
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, is_root, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::web::nginx::{self, NGINX};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const FPM: Tool = Tool { program: "php-fpm*", package: "php-fpm" };

/// A script that answers uploads, and sends files.
pub const ROW: Row = Row {
    name: "php_fpm",
    what: "through nginx, FastCGI over TCP: uploads of 50 MB, downloads of 50 MB to slow readers; a killed client, killed \
           workers",
    tools: &[FPM, NGINX, CURL, WRK],
    version: Version { tool: FPM, arguments: &["-v"] },
    check,
    figures: &[
        Figure {
            what: "a small script, 1 connection",
            unit: "requests/s",
            run: |run| requests(run, 1),
            reason: None,
        },
        Figure {
            what: "a small script, 8 connections",
            unit: "requests/s",
            run: |run| requests(run, 8),
            reason: None,
        },
    ],
};

/// php-fpm, and nginx before it.
fn start(run: &Run, port: u16, behind: u16) -> Result<[Process; 2], Error> {
    let user = if is_root() { "user = nobody\ngroup = nogroup" } else { "" };
    let folder = run.path().display();
    let text = format!(
        "[global]\npid = {folder}/fpm.pid\nerror_log = {folder}/fpm.log\ndaemonize = no\n\
         [www]\n{user}\nlisten = 127.0.0.1:{behind}\npm = static\npm.max_children = 8\nclear_env = no\n\
         php_admin_value[memory_limit] = 256M\nphp_admin_value[post_max_size] = 0\n"
    );
    let file = run.write("fpm.conf", text)?;
    let mut command = run.server(FPM)?;
    command.arg("-y").arg(file).arg("-n");
    let fpm = run.serve("php-fpm", command, behind)?;
    let script = run.file("script.php");
    fs::copy(helper("script.php"), &script).map_err(Error::system(script.display()))?;
    let passing = format!(
        "location / {{ fastcgi_pass php; fastcgi_keep_conn on; fastcgi_request_buffering off; fastcgi_buffering off;
           fastcgi_param SCRIPT_FILENAME {}; fastcgi_param REQUEST_METHOD $request_method;
           fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param CONTENT_TYPE $content_type;
           fastcgi_param REQUEST_URI $request_uri; fastcgi_param QUERY_STRING $query_string; }}",
        script.display()
    );
    let beside = format!("upstream php {{ server 127.0.0.1:{behind}; keepalive 8; }}");
    Ok([nginx::start(run, "nginx", port, &passing, &beside)?, fpm])
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (content, port, behind) = (run.write_generated("sent", run.size())?, run.port()?, run.port()?);
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let [nginx, fpm] = start(run, port, behind)?;
    let meter = Meter::start(run, &[("curl to nginx", &nginx), ("nginx to php-fpm", &fpm)])?;
    download(run, &url("sent"), None, &content)?;
    download(run, &url("sent"), SLOWLY, &content)?;
    upload(run, &url("sent"), "sent", &[])?;
    upload(run, &url("sent?slow"), "sent", &[])?;
    let legs = meter.legs_of(&[(4 * run.size() as u64, 4), (4 * run.size() as u64, 1)])?;
    killed_client(run, &url("sent"), &content)?;
    killed_server(run, &url(""), &children(fpm.pid()))?;
    download(run, &url("sent"), None, &content)?;
    fine(&run.file("fpm.log"))?;
    Ok(legs)
}

/// A worker that crashed is started anew, so only the log tells.
fn fine(log: &Path) -> Result<(), Error> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let bad = text.lines().find(|line| line.contains("exited on signal") && !line.contains("signal 9 "));
    Error::unless(bad.is_none(), || bad.unwrap_or_default().to_string())
}

fn requests(run: &Run, connections: u32) -> Result<Measured, Error> {
    let [port, behind] = [run.port()?, run.port()?];
    let [nginx, fpm] = start(run, port, behind)?;
    let meter = Meter::start(run, &[("wrk to nginx", &nginx), ("nginx to php-fpm", &fpm)])?;
    let load = http::wrk(run, connections, &format!("http://127.0.0.1:{port}/small"))?;
    let legs = meter.legs_of(&[(load.bytes, connections.into()), (load.bytes, 1)])?;
    Ok(Measured { value: load.rate, legs })
}
