//! Serving the counts by HTTP, on TCP or a Unix socket.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::sys::resource::{getrlimit, Resource};

use super::http::{self, Answer, Listener, Request};

/// Connections at a time; a Prometheus has one.
const MOST: usize = 128;

/// Where it is served.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.as_os_str().is_empty() {
                Err("a path behind unix:".into())
            } else {
                Ok(Place::Unix(path))
            };
        }
        let known = || {
            "ADDRESS:PORT as in 127.0.0.1:9780 or [::1]:9780, or unix:PATH; names are not looked up"
                .to_string()
        };
        text.parse().map(Place::Tcp).map_err(|_| known())
    }
}

/// Serves until the process is ended.
pub fn serve(place: &Place) -> Result<(), String> {
    let failed =
        |named: &dyn Display, error: io::Error| format!("{named}: {error}{}", way_out(place, error.kind()));
    let listener = match place {
        Place::Tcp(addr) => {
            let listener = TcpListener::bind(addr).map_err(|error| failed(addr, error))?;
            let bound = listener.local_addr().map_or(String::new(), |addr| addr.to_string());
            eprintln!("dp metrics: http://{bound}/metrics");
            Listener::Tcp(listener)
        }
        Place::Unix(path) => {
            make_room(path)?;
            let listener = UnixListener::bind(path).map_err(|error| failed(&path.display(), error))?;
            eprintln!("dp metrics: {}, path /metrics", path.display());
            Listener::Unix(listener)
        }
    };
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    // The rest is for looking at programs.
    let most = MOST.min(limit as usize / 4);
    let error = match listener.set_nonblocking() {
        Ok(()) => http::serve(&listener, most, answers),
        Err(error) => error,
    };
    Err(format!("nobody is served any more: {error}"))
}

/// Questions of the same moment get the same answer, so many of them cost one look.
fn answers(requests: &[Request]) -> Vec<Answer> {
    let mut now = None;
    let mut answer = |request: &Request| match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/metrics") => match now.get_or_insert_with(super::now) {
            Ok(text) => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                Answer { status: "200 OK", kind, body: text.clone() }
            }
            Err(why) => plain("500 Internal Server Error", why),
        },
        ("GET" | "HEAD", "/") => {
            let page = "<!doctype html><title>dp metrics</title><a href=\"/metrics\">metrics</a>\n";
            Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: page.into() }
        }
        ("GET" | "HEAD", _) => plain("404 Not Found", "there is /metrics"),
        _ => plain("405 Method Not Allowed", "GET and HEAD alone"),
    };
    requests.iter().map(&mut answer).collect()
}

fn plain(status: &'static str, why: &str) -> Answer {
    Answer { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n") }
}

/// What to do where it cannot be served.
fn way_out(place: &Place, kind: ErrorKind) -> &'static str {
    match (place, kind) {
        (Place::Tcp(_), ErrorKind::AddrInUse) => "; name another port, or 0 for any free one",
        (Place::Tcp(_), ErrorKind::AddrNotAvailable) => {
            "; this host has no such address: 127.0.0.1 is this host's alone, 0.0.0.0 all that it has"
        }
        (Place::Tcp(_), ErrorKind::PermissionDenied) => "; ports below 1024 are for root",
        (Place::Unix(_), ErrorKind::NotFound) => "; make its folder first",
        (Place::Unix(_), ErrorKind::InvalidInput) => "; a path of at most 107 bytes can stand there",
        _ => "",
    }
}

/// A socket that an earlier process left behind goes; one that somebody serves, and anything else, stays.
fn make_room(path: &Path) -> Result<(), String> {
    let Ok(there) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let named = |why: &str| Err(format!("{}: {why}", path.display()));
    if !there.file_type().is_socket() {
        return named("is there already, and no socket; name another place");
    }
    if UnixStream::connect(path).is_ok() {
        return named("somebody serves there already");
    }
    std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_path() {
        for (text, place) in [
            ("127.0.0.1:9780", Some(Place::Tcp("127.0.0.1:9780".parse().unwrap()))),
            ("[::1]:0", Some(Place::Tcp("[::1]:0".parse().unwrap()))),
            ("unix:/run/dp/metrics", Some(Place::Unix("/run/dp/metrics".into()))),
            ("unix:", None),
            ("localhost:9780", None),
            ("9780", None),
            ("127.0.0.1:99999", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Place>().ok(), place, "{text:?}");
        }
    }
}
