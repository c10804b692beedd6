//! A capture that runs, and its file as tshark reads it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use compat_tests::programs::{python, target_dir};
use compat_tests::tools::{await_that, needed, TempDir};
use compat_tests::{Combo, Ended, Job};
use nix::sys::signal::{kill, Signal};

/// The command under test.
pub fn dp() -> PathBuf {
    let dp = target_dir().join("release/dp");
    assert!(dp.exists(), "no command at {}: run `cargo build --release` first", dp.display());
    dp
}

/// Both sides under the shim, on channels from early on.
pub fn early() -> Combo {
    Combo { after: Some(1), ..Combo::shimmed() }
}

/// A capture into a file.
pub struct Capture {
    job: Job,
    file: PathBuf,
}

impl Capture {
    /// Starts, and has seen what there is.
    pub fn start(folder: &TempDir, options: &[&str]) -> Capture {
        let file = folder.file("capture.pcapng");
        let mut command = Command::new(dp());
        command.args(["capture", "-w"]).arg(&file).args(options);
        let job = Job::start("capture", command, folder.path());
        await_that("the capture has begun", Duration::from_secs(20), || {
            fs::metadata(&file).is_ok_and(|data| data.len() > 0)
        });
        Capture { job, file }
    }

    /// Ends it as ^C does; what it said.
    pub fn end(self) -> (Ended, Packets) {
        // What was sent last is found by a look.
        std::thread::sleep(Duration::from_millis(100));
        kill(self.job.pid(), Signal::SIGINT).expect("it runs");
        let ended = self.job.finish(Instant::now() + Duration::from_secs(20));
        assert!(ended.ok(), "{}", ended.text());
        (ended, Packets { file: self.file })
    }
}

impl Capture {
    /// Does nothing for so long.
    pub fn stop_for(&self, time: Duration) {
        kill(self.job.pid(), Signal::SIGSTOP).expect("it runs");
        std::thread::sleep(time);
        kill(self.job.pid(), Signal::SIGCONT).expect("it runs");
    }

    /// It ends by itself.
    pub fn end_by_itself(self) -> (Ended, Packets) {
        let ended = self.job.finish(Instant::now() + Duration::from_secs(20));
        assert!(ended.ok(), "{}", ended.text());
        (ended, Packets { file: self.file })
    }
}

/// What was captured.
pub struct Packets {
    pub file: PathBuf,
}

impl Packets {
    /// For each packet that `filter` passes, these fields.
    pub fn fields(&self, decode: &str, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new(needed("tshark", "tshark"));
        command.arg("-n").arg("-r").arg(&self.file).args(["-Y", filter, "-T", "fields"]);
        if !decode.is_empty() {
            command.args(["-d", decode]);
        }
        for field in fields {
            command.args(["-e", field]);
        }
        let out = command.stderr(Stdio::piped()).output().expect("tshark starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tshark {filter}: {said}");
        let text = String::from_utf8(out.stdout).expect("fields are text");
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// The same, of one field.
    pub fn field(&self, decode: &str, filter: &str, field: &str) -> Vec<String> {
        self.fields(decode, filter, &[field]).into_iter().map(|mut fields| fields.remove(0)).collect()
    }
}

/// `paced.py` between two processes.
pub struct Paced {
    pub server: Job,
    pub client: Job,
    pub port: u16,
}

/// The server of it.
pub struct Serves {
    server: Job,
    pub port: u16,
    combo: Combo,
}

impl Serves {
    /// It listens.
    pub fn start(folder: &TempDir) -> Serves {
        let (portfile, combo) = (folder.file("port"), early());
        let mut server = combo.server_command(&needed("python3", "python3-minimal"), folder.path());
        server.arg(python("paced.py")).arg("server").arg(&portfile);
        let server = Job::start("server", server, folder.path());
        await_that("the server listens", Duration::from_secs(20), || portfile.exists());
        let text = fs::read_to_string(&portfile).expect("the server's port");
        let port = text.split_whitespace().last().and_then(|port| port.parse().ok()).expect("a port");
        Serves { server, port, combo }
    }

    /// Only what is this test's own: others may run beside it.
    pub fn captured(&self, folder: &TempDir, options: &[&str]) -> Capture {
        let port = self.port.to_string();
        Capture::start(folder, &[&["--port", &port], options].concat())
    }

    /// The client sends `messages` of `size` bytes, with a rest of `pause` milliseconds behind each.
    pub fn sent(self, folder: &TempDir, [messages, size]: [usize; 2], pause: f32, hold: bool) -> Paced {
        let mut client = self.combo.client_command(&needed("python3", "python3-minimal"), folder.path());
        client.arg(python("paced.py")).arg("client").arg(folder.file("port"));
        client.args([messages.to_string(), size.to_string(), pause.to_string()]);
        client.args(hold.then_some("hold"));
        let client = Job::start("client", client, folder.path());
        Paced { server: self.server, client, port: self.port }
    }
}

impl Paced {
    /// Both end by themselves.
    pub fn finish(self) {
        for job in [self.client, self.server] {
            let ended = job.finish(Instant::now() + Duration::from_secs(60));
            assert!(ended.ok(), "{}", ended.text());
        }
    }
}

/// What `paced.py` has sent, from a place on: four bytes that say the size come first.
pub fn sent(size: usize, at: usize) -> u8 {
    match at.checked_sub(4) {
        None => (size as u32).to_be_bytes()[at],
        Some(at) => {
            let i = at % (251 * 256);
            (i * 31 + i / 251) as u8
        }
    }
}

/// Bytes of hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

/// Input for a client: a line at once, and the rest when its channel has been found, line by line at a pace that is followed
/// by a machine with much else to do.
pub fn input(folder: &TempDir, first: &str, rest: &str) -> Stdio {
    let file = folder.file("input");
    fs::write(&file, rest).expect("a file");
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            "echo \"$1\"; sleep 3; while read -r line; do echo \"$line\"; sleep 0.02; done < \"$2\"; sleep 1",
            "sh",
            first,
        ])
        .arg(&file);
    let mut shell = shell.stdout(Stdio::piped()).spawn().expect("sh starts");
    let out = shell.stdout.take().expect("a pipe").into();
    std::thread::spawn(move || shell.wait());
    out
}
