//! `dp top`: as text, and in a real terminal.

mod batch;
#[path = "../kit/mod.rs"]
mod kit;
mod terminal;
mod tmux;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use dpfd::Endpoint;

/// The folder of this process's endpoints.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("dp-top-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        // As the registry wants it.
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::env::set_var("DP_RUNTIME_DIR", &path);
        path
    })
}

fn dp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.arg("top").env("DP_RUNTIME_DIR", folder()).env("DP_DRIVER", "user");
    command
}

/// Two endpoints of this process, one of which sends the other ten bytes again and again.
struct Traffic {
    from: u16,
    to: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start() -> Traffic {
        folder();
        let (from, to) = (Endpoint::open(0).unwrap(), Endpoint::open(0).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let numbers = (from.dpid(), to.dpid());
        let end = stop.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                from.send_to(b"ten bytes.", to.addr()).unwrap();
                drop(to.recv().unwrap());
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Traffic { from: numbers.0, to: numbers.1, stop, thread: Some(thread) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
