//! A real terminal: tmux without anybody in front of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kit::skip;

pub struct Tmux {
    socket: String,
}

impl Tmux {
    /// A shell in a terminal of this size. `None` where there is no tmux, which is noted.
    pub fn start(name: &str, (columns, lines): (u16, u16), folder: &Path, colours: bool) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("dp top on a terminal: no tmux here");
            return None;
        }
        let tmux = Tmux { socket: format!("dp-top-{}-{name}", std::process::id()) };
        let size = [columns.to_string(), lines.to_string()];
        let mut command =
            tmux.command(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1]]);
        // Its shell has all it knows from here.
        command.arg("env").arg("PS1=$ ").arg(format!("DP_RUNTIME_DIR={}", folder.display()));
        command.arg(format!("DP={}", env!("CARGO_BIN_EXE_dp"))).arg("DP_DRIVER=user");
        command.arg(if colours { "NO_COLOR=" } else { "NO_COLOR=1" });
        command.args(["bash", "--norc", "--noprofile", "-i"]);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        tmux.ask(&["set-option", "-g", "window-size", "manual"]);
        tmux.until("a prompt", |screen| screen.starts_with('$'));
        Some(tmux)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words).env_remove("TMUX").env_remove("NO_COLOR");
        command
    }

    fn ask(&self, words: &[&str]) -> Output {
        let out = self.command(words).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        out
    }

    /// Keys by their names in tmux.
    pub fn keys(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// What is typed, and Enter.
    pub fn line(&self, line: &str) {
        self.text(line);
        self.keys(&["Enter"]);
    }

    pub fn text(&self, text: &str) {
        self.ask(&["send-keys", "-l", "--", text]);
    }

    pub fn screen(&self) -> String {
        String::from_utf8(self.ask(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Whether anything on the screen has another colour than that of the terminal.
    pub fn has_colours(&self) -> bool {
        let text = String::from_utf8(self.ask(&["capture-pane", "-p", "-e"]).stdout).unwrap();
        let codes = text.split("\u{1b}[").skip(1).filter_map(|after| after.split_once('m'));
        let is_colour = |code: &str| matches!(code.parse(), Ok(30..=38 | 40..=48 | 90..=97 | 100..=107));
        codes.flat_map(|(codes, _)| codes.split(';')).any(is_colour)
    }

    /// What is on the screen when `so` holds of it.
    pub fn until(&self, what: &str, so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let screen = self.screen();
            if so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The program that the shell runs.
    pub fn child(&self) -> Pid {
        let shell = String::from_utf8(self.ask(&["display-message", "-p", "#{pane_pid}"]).stdout).unwrap();
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        Pid::from_raw(children.trim().parse().expect("one child"))
    }

    pub fn resize(&self, (columns, lines): (u16, u16)) {
        self.ask(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}
