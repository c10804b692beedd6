//! A host that is rolled out to: a tree with units, an installed library, and what an operator asks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use compat_tests::programs::target_dir;
use compat_tests::tools::TempDir;
use compat_tests::{Combo, Job};

pub struct Host {
    pub folder: TempDir,
}

impl Host {
    /// With the library installed, and a unit.
    pub fn new(unit: &str, text: &str) -> Host {
        let host = Host { folder: TempDir::new() };
        // Servers change their user.
        fs::set_permissions(host.folder.path(), Permissions::from_mode(0o777)).expect("our folder");
        host.install();
        // The tree has the library at the same path, as an image's own would have.
        let inside = host.tree().join(host.folder.path().strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(&inside).expect("the tree");
        std::os::unix::fs::symlink(host.library(), inside.join("libdp_preload.so")).expect("the tree");
        let units = host.tree().join("usr/lib/systemd/system");
        fs::create_dir_all(&units).expect("the tree");
        fs::create_dir_all(host.tree().join("etc/systemd/system")).expect("the tree");
        fs::write(units.join(unit), text).expect("the unit");
        host
    }

    fn tree(&self) -> PathBuf {
        self.folder.file("tree")
    }

    fn library(&self) -> PathBuf {
        self.folder.file("libdp_preload.so")
    }

    /// As a package manager does it: another file takes the name.
    pub fn install(&self) {
        let new = self.folder.file("libdp_preload.so.new");
        fs::copy(target_dir().join("release/libdp_preload.so"), &new)
            .expect("run `cargo build --release` first");
        fs::rename(&new, self.library()).expect("the library");
    }

    fn dp(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(target_dir().join("release/dp"));
        command.args(arguments).env("DP_SHIM", self.library()).output().expect("dp")
    }

    /// A verb on the tree's units; it must succeed.
    pub fn on_tree(&self, arguments: &[&str]) {
        let tree = self.tree().display().to_string();
        let out = self.dp(&[arguments, &["--root", &tree]].concat());
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{arguments:?}: {said}");
    }

    /// What the drop-in of the unit assigns to the environment.
    pub fn environment(&self, unit: &str) -> Vec<(String, String)> {
        let file = self.tree().join(format!("etc/systemd/system/{unit}.d/50-directed-point.conf"));
        let text = fs::read_to_string(&file).expect("the drop-in");
        let values = text.lines().filter_map(|line| line.strip_prefix("Environment=\"")?.strip_suffix('"'));
        values.filter_map(|value| value.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    }

    /// Whether anything of ours is left in the tree.
    pub fn is_clean(&self) -> bool {
        fs::read_dir(self.tree().join("etc/systemd/system")).expect("the tree").next().is_none()
    }

    /// A counter of `dp metrics`, summed up over the programs of that name.
    pub fn metric(&self, name: &str, program: &str) -> u64 {
        let out = self.dp(&["metrics"]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let label = format!("program=\"{program}\"");
        let lines =
            text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(&label));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// What `dp doctor` says of a process.
    pub fn doctor(&self, pid: i32) -> String {
        String::from_utf8_lossy(&self.dp(&["doctor", &pid.to_string()]).stdout).into_owned()
    }

    /// A command of a client's, with the shim.
    pub fn client(&self, program: &Path) -> Command {
        let mut command = Combo::shimmed().client_command(program, self.folder.path());
        command.env("LD_PRELOAD", self.library());
        command
    }

    /// A command of a service's, with that environment and no other of ours.
    pub fn service(&self, program: &Path, environment: &[(String, String)]) -> Command {
        let mut command = Combo::native().server_command(program, self.folder.path());
        command.envs(environment.iter().cloned());
        command
    }

    pub fn start(&self, name: &str, command: Command) -> Job {
        Job::start(name, command, self.folder.path())
    }

    /// Starts what goes into the background by itself, and waits until it has. It is no [`Job`], which kills what its leader leaves
    /// in its group: there a daemon is until its setsid(2), which may come after the leader's end.
    pub fn start_daemon(&self, mut command: Command) {
        let errors = self.folder.file("daemon.err");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&errors).expect("a file for stderr"));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            match child.try_wait().expect("our child") {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break child.kill().and(Ok(None)).expect("our child"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let said = fs::read_to_string(&errors).unwrap_or_default();
        assert!(status.is_some_and(|status| status.success()), "{command:?}: {status:?}: {said}");
    }
}

/// Something that is done again and again in a thread, until it is stopped, and may not fail once.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Load {
    pub fn start(mut once: impl FnMut() + Send + 'static) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut times = 0;
            while !seen.load(Ordering::Relaxed) {
                once();
                times += 1;
            }
            times
        });
        Load { stop, thread }
    }

    /// How often it was done.
    pub fn finish(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure))
    }
}
