//! A connection for questions to a redis-server, over AF_UNIX: no part in what is measured or counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::Traffic;
use crate::measure::Error;

/// A server that is alive answers within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// Answers are a few kilobytes.
const LONGEST: usize = 1 << 20;

/// The connection, and its own part in what the server counts.
pub struct Control {
    stream: BufReader<UnixStream>,
    own: Traffic,
}

impl Control {
    /// Connects to a server that listens already.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(socket: &Path) -> Result<Control, Error> {
        let refused = || format!("connecting to {}", socket.display());
        let stream = UnixStream::connect(socket).map_err(Error::system(refused()))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Error::system(refused()))?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(Error::system(refused()))?;
        Ok(Control { stream: BufReader::new(stream), own: Traffic::default() })
    }

    /// Sends one command and returns the answer: a line, or a text of announced length.
    ///
    /// # Errors
    /// The server answers with an error, or not.
    pub fn ask(&mut self, command: &str) -> Result<String, Error> {
        let what = || format!("redis-server, asked `{command}`");
        let request = format!("{command}\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).map_err(Error::system(what()))?;
        self.own.received += request.len() as u64;
        let mut head = String::new();
        let length = self.stream.read_line(&mut head).map_err(Error::system(what()))?;
        self.own.sent += length as u64;
        let Some(announced) = head.strip_prefix('$') else {
            return match head.strip_prefix('+') {
                Some(line) => Ok(line.trim_end().to_string()),
                None => Err(Error::words(what(), &head)),
            };
        };
        let length: usize = announced
            .trim_end()
            .parse()
            .ok()
            .filter(|n| *n < LONGEST)
            .ok_or_else(|| Error::words(what(), &head))?;
        let mut text = vec![0; length + 2];
        self.stream.read_exact(&mut text).map_err(Error::system(what()))?;
        self.own.sent += text.len() as u64;
        Ok(String::from_utf8_lossy(&text).trim_end().to_string())
    }

    /// The bytes of all other clients.
    ///
    /// # Errors
    /// The server does not count, or does not answer.
    pub fn traffic(&mut self) -> Result<Traffic, Error> {
        // The answer is counted when it has been sent, the question before.
        let sent_before = self.own.sent;
        let info = self.ask("INFO stats")?;
        let count = |name: &str| -> Result<u64, Error> {
            let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found
                .and_then(|n| n.trim().parse().ok())
                .ok_or_else(|| Error::words("redis-server, INFO stats", &info))
        };
        Ok(Traffic {
            received: count("total_net_input_bytes")?.saturating_sub(self.own.received),
            sent: count("total_net_output_bytes")?.saturating_sub(sent_before),
        })
    }
}
