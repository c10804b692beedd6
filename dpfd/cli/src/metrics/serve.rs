//! Serving the counts by HTTP, on TCP or a Unix socket.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tiny_http::{Header, Method, Response, Server};

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
    let server = match place {
        Place::Tcp(addr) => {
            Server::http(addr).map_err(|why| format!("{addr}: {why}{}", way_out(place, &*why)))?
        }
        Place::Unix(path) => {
            make_room(path)?;
            Server::http_unix(path)
                .map_err(|why| format!("{}: {why}{}", path.display(), way_out(place, &*why)))?
        }
    };
    match place {
        Place::Tcp(_) => {
            let bound = server.server_addr().to_ip().map_or(String::new(), |addr| addr.to_string());
            eprintln!("dp metrics: http://{bound}/metrics");
        }
        Place::Unix(path) => eprintln!("dp metrics: {}, path /metrics", path.display()),
    }
    for request in server.incoming_requests() {
        let path = request.url().split('?').next().unwrap_or("").to_owned();
        let answer = match (request.method(), path.as_str()) {
            (Method::Get | Method::Head, "/metrics") => match super::now() {
                Ok(text) => Response::from_string(text)
                    .with_header(content("text/plain; version=0.0.4; charset=utf-8")),
                Err(why) => Response::from_string(why + "\n").with_status_code(500),
            },
            (Method::Get | Method::Head, "/") => {
                let page = "<!doctype html><title>dp metrics</title><a href=\"/metrics\">metrics</a>\n";
                Response::from_string(page).with_header(content("text/html; charset=utf-8"))
            }
            (Method::Get | Method::Head, _) => {
                Response::from_string("there is /metrics\n").with_status_code(404)
            }
            _ => Response::from_string("GET and HEAD alone\n").with_status_code(405),
        };
        // The other end may be gone.
        let _ = request.respond(answer);
    }
    Err("the server has ended".into())
}

/// What to do where it cannot be served.
fn way_out(place: &Place, why: &(dyn Error + 'static)) -> &'static str {
    let Some(kind) = why.downcast_ref::<io::Error>().map(io::Error::kind) else { return "" };
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

fn content(kind: &str) -> Header {
    Header::from_bytes("Content-Type", kind).expect("a sound header")
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
