//! Those who look while something is measured, as an operator has them: `dp top` and `dp ls --watch` each second, and a
//! Prometheus that asks `dp metrics --listen` as often.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::kit::Kit;
use super::process::{Cost, Process};
use super::Error;

/// How often each looks.
const EVERY: Duration = Duration::from_secs(1);
/// How long the server of counts may take to say where it is.
const READY: Duration = Duration::from_secs(10);

/// All of them, until this is dropped.
pub struct Lookers {
    processes: Vec<Process>,
    /// Dropping it ends the thread that asks.
    stop: Option<Sender<()>>,
    asks: Option<JoinHandle<()>>,
}

impl Lookers {
    /// Starts them.
    ///
    /// # Errors
    /// One cannot be started, or does not say where it serves.
    pub fn start(kit: &Kit) -> Result<Lookers, Error> {
        let start = |words: &[&str]| {
            let mut command = kit.dp();
            command.args(words);
            kit.start(command, &format!("dp {}", words[0]), None)
        };
        let served = start(&["metrics", "--listen", "127.0.0.1:0"])?;
        let place = place(&served)?;
        let processes = vec![
            served,
            start(&["ls", "--watch=1", "--json-lines"])?,
            start(&["top", "--batch", "--interval=1", "--json-lines"])?,
        ];
        let (stop, stopped) = channel();
        let ask = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let _ = asked(&place);
            }
        };
        Ok(Lookers { processes, stop: Some(stop), asks: Some(std::thread::spawn(ask)) })
    }

    /// What they have cost so far.
    ///
    /// # Errors
    /// One is gone, or not at its work.
    pub fn cost(&mut self) -> Result<Cost, Error> {
        self.processes.iter_mut().try_for_each(Process::still_runs)?;
        self.processes.iter().try_fold(Cost::default(), |sum, process| Ok(sum + process.cost()?))
    }
}

impl Drop for Lookers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.asks.take() {
            let _ = thread.join();
        }
    }
}

/// Where the server says that it is.
fn place(served: &Process) -> Result<String, Error> {
    let end = Instant::now() + READY;
    loop {
        let words = served.last_words();
        let place = words.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        match place {
            Some(place) => return Ok(place.to_string()),
            None if Instant::now() > end => return Err(Error::words("dp metrics", &words)),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn asked(place: &str) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(place)?;
    stream.set_read_timeout(Some(READY))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    stream.read_to_end(&mut Vec::new())
}
