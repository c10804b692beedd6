//! Clients of HTTP: curl for content, wrk for figures.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use super::run::{signal, Run};
use super::tool::Tool;
use crate::measure::process::Process;
use crate::measure::Error;

/// Moves content.
pub const CURL: Tool = Tool { program: "curl", package: "curl" };
/// Makes load.
pub const WRK: Tool = Tool { program: "wrk", package: "wrk" };
/// Runs the helpers in `compat-tests/matrix`.
pub const PYTHON: Tool = Tool { program: "/usr/bin/python3", package: "python3-minimal" };

/// A helper program of this folder.
pub fn helper(name: &str) -> String {
    format!("{}/matrix/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// curl with these arguments; an answer that says no is an error.
///
/// # Errors
/// It is not installed.
pub fn curl(run: &Run, arguments: &[&str]) -> Result<Command, Error> {
    let mut command = run.client(CURL)?;
    command.args(["-sS", "--fail", "--noproxy", "*", "--max-time", "60"]).args(arguments);
    Ok(command)
}

/// Of a slow reader: curl sleeps between its reads, so that whoever sends must wait.
pub const SLOWLY: Option<&str> = Some("100M");

/// Fetches the address and compares every byte; [`SLOWLY`] at so many bytes a second.
///
/// # Errors
/// It cannot be fetched, or is something else.
pub fn download(run: &Run, url: &str, slowly: Option<&str>, expected: &[u8]) -> Result<(), Error> {
    let rate: Vec<&str> = slowly.iter().flat_map(|rate| ["--limit-rate", rate]).collect();
    let mut command = curl(run, &rate)?;
    command.args(["-o", "arrived", url]);
    run.finish(&format!("curl {url}"), command)?;
    same(url, expected, &fs::read(run.file("arrived")).map_err(Error::system("arrived"))?)
}

/// Sends the run's file by PUT to a server that answers with the length and SHA-256 of what it received.
///
/// # Errors
/// It cannot be sent, or something else arrived.
pub fn upload(run: &Run, url: &str, file: &str, more: &[&str]) -> Result<(), Error> {
    let mut command = curl(run, more)?;
    command.args(["-T", file, url]);
    let answer = run.finish(&format!("curl -T {file} {url}"), command)?.out;
    let expected = digest(run, file)?;
    Error::unless(answer.trim() == expected, || {
        format!("{url} received {:?}, and sent was {expected}", answer.trim())
    })
}

/// `LENGTH SHA256` of a file of the run.
///
/// # Errors
/// It cannot be read.
pub fn digest(run: &Run, file: &str) -> Result<String, Error> {
    let mut command = run.plain(Tool { program: "sha256sum", package: "coreutils" })?;
    command.arg(file);
    let told = run.finish("sha256sum", command)?.out;
    let length = fs::metadata(run.file(file)).map_err(Error::system(file))?.len();
    Ok(format!("{length} {}", told.split_whitespace().next().unwrap_or_default()))
}

/// Fails without printing megabytes.
///
/// # Errors
/// [`Error::Wrong`].
pub fn same(what: &str, expected: &[u8], arrived: &[u8]) -> Result<(), Error> {
    let right = expected.iter().zip(arrived).take_while(|(a, b)| a == b).count();
    Error::unless(right == expected.len() && right == arrived.len(), || {
        let (sent, arrived) = (expected.len(), arrived.len());
        format!("{what}: {right} of {sent} bytes are right, {arrived} arrived")
    })
}

/// Starts a slow download and returns when it is in the middle.
///
/// # Errors
/// It does not get there.
pub fn half_way(run: &Run, url: &str) -> Result<Process, Error> {
    // What an earlier one has left would be taken for this one's.
    let _ = fs::remove_file(run.file("half"));
    let command = curl(run, &["--limit-rate", "20M", "-o", "half", url])?;
    let mut client = run.start(&format!("curl {url}"), command)?;
    run.await_that(&format!("{url} begins to arrive"), || {
        client.still_runs()?;
        Ok(fs::metadata(run.file("half")).is_ok_and(|half| half.len() > 100_000))
    })?;
    Ok(client)
}

/// A client that is killed in the middle of a download does not disturb others.
///
/// # Errors
/// It does.
pub fn killed_client(run: &Run, url: &str, expected: &[u8]) -> Result<(), Error> {
    let client = half_way(run, url)?;
    signal(client.pid(), Signal::SIGKILL)?;
    drop(client);
    download(run, url, None, expected)
}

/// The file for [`killed_server`]: of zeroes, and longer than what the kernel's buffers of two connections can hold.
/// Bytes in these buffers still arrive after the server has died, and might be the whole of a shorter file.
///
/// # Errors
/// It cannot be made.
fn write_long(run: &Run) -> Result<(), Error> {
    let most = |name: &str| {
        let limits = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        limits.split_whitespace().last().and_then(|most| most.parse::<u64>().ok()).unwrap_or(32 << 20)
    };
    let length = 2 * (most("tcp_rmem") + most("tcp_wmem")) + (32 << 20);
    let file = run.file(LONG);
    fs::File::create(&file).and_then(|long| long.set_len(length)).map_err(Error::system(file.display()))
}

/// Its name.
const LONG: &str = "long";

/// When these processes are killed in the middle of a download the client is told, and does not wait for ever. `folder` is
/// an address below which a server sends the files of the run's folder.
///
/// # Errors
/// It is not told.
pub fn killed_server(run: &Run, folder: &str, victims: &[u32]) -> Result<(), Error> {
    write_long(run)?;
    let url = &format!("{folder}{LONG}");
    let client = half_way(run, url)?;
    victims.iter().try_for_each(|victim| signal(*victim, Signal::SIGKILL))?;
    match client.finish(super::run::LIMIT) {
        // 18: transfer closed with bytes remaining; 56: failure in receiving; 28 would be curl's own patience.
        Err(Error::Ended { status, .. }) if status == "status 18" || status == "status 56" => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Wrong(format!("{url}: curl saw a whole answer, and its server was killed"))),
    }
}

/// What wrk counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of all answers, headers included.
    pub bytes: u64,
    /// Requests in a second.
    pub rate: f64,
}

/// wrk with one thread and so many connections that stay, for about [`Run::time`].
///
/// # Errors
/// It fails, or any request did, or it says something unknown.
pub fn wrk(run: &Run, connections: u32, url: &str) -> Result<Load, Error> {
    let mut command = run.client(WRK)?;
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{}s", run.seconds()), url]);
    parse(&run.finish(&format!("wrk -c{connections} {url}"), command)?.out)
}

/// `  12345 requests in 1.10s, 3.01MB read` and `Requests/sec:  11222.33`; a line about errors makes the load void.
pub(super) fn parse(text: &str) -> Result<Load, Error> {
    let unknown = || Error::words("wrk", text);
    let bad = ["Socket errors", "Non-2xx", "unable to", "error"];
    if let Some(line) = text.lines().find(|line| bad.iter().any(|bad| line.contains(bad))) {
        return Err(Error::Wrong(format!("wrk: {}", line.trim())));
    }
    let sums = text.lines().find(|line| line.contains(" requests in ")).ok_or_else(unknown)?;
    let requests = sums.split_whitespace().next().and_then(|count| count.parse().ok()).ok_or_else(unknown)?;
    let read = sums.strip_suffix(" read").and_then(|sums| sums.rsplit(' ').next()).ok_or_else(unknown)?;
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")).ok_or_else(unknown)?;
    let rate = rate.trim().parse().ok().filter(|rate: &f64| rate.is_finite()).ok_or_else(unknown)?;
    let bytes = binary(read).ok_or_else(unknown)?;
    match requests {
        0 => Err(Error::Wrong("wrk: not one request was answered".into())),
        _ => Ok(Load { requests, bytes, rate }),
    }
}

/// `3.01MB`, of 1024 each.
fn binary(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(digits);
    let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|known| *known == unit)?;
    let number: f64 = number.parse().ok()?;
    Some((number * 1024f64.powi(power as i32)) as u64)
}
