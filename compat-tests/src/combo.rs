//! Which side runs under the shim, and with what settings.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::target_dir;

/// Whether a process is preloaded with the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program as it is.
    Native,
    /// With `LD_PRELOAD`.
    Shim,
}

/// One way to run a server and a client.
#[derive(Clone, Debug)]
pub struct Combo {
    /// What a failure is reported under.
    pub name: String,
    /// How the listening side runs.
    pub server: Side,
    /// How the connecting side runs.
    pub client: Side,
    /// `DP_CHAOS`: the shim switches and hands back at random, by this seed.
    pub chaos: Option<u32>,
    /// `DP_AFTER`: calls before a connection is upgraded.
    pub after: Option<u32>,
    /// Exchanges on each new connection before the behaviour itself; 0 tries it on a newborn connection.
    pub warm: u32,
    /// The connecting side is the tester, in programs that know both roles.
    pub swap: bool,
}

/// Enough exchanges that a connection certainly is a channel afterwards.
const WELL_USED: u32 = 256;

impl Combo {
    /// A combination with well used connections and no special settings.
    pub fn new(name: &str, server: Side, client: Side) -> Self {
        Self { name: name.into(), server, client, chaos: None, after: None, warm: WELL_USED, swap: false }
    }

    /// Both sides without the shim.
    pub fn native() -> Self {
        Self::new("native", Side::Native, Side::Native)
    }

    /// Both sides with the shim.
    pub fn shimmed() -> Self {
        Self::new("shim/shim", Side::Shim, Side::Shim)
    }

    /// The four ways to put the shim on none, both, or one side.
    pub fn sides() -> [Self; 4] {
        [
            Self::native(),
            Self::shimmed(),
            Self::new("shim/native", Side::Shim, Side::Native),
            Self::new("native/shim", Side::Native, Side::Shim),
        ]
    }

    /// Everything a behaviour is tried under; `swappable` adds runs with the roles exchanged.
    pub fn all(swappable: bool) -> Vec<Self> {
        let mut combos = Self::sides()[1..].to_vec();
        let shimmed = |name: &str| Self { name: format!("shim/shim {name}"), ..Self::shimmed() };
        combos.push(Self { warm: 0, ..shimmed("newborn") });
        combos.push(Self { warm: 3, after: Some(1), ..shimmed("young") });
        for seed in 1..=number_from("DP_COMPAT_SEEDS", 3) {
            // The seeds also differ in how far a connection has come when the behaviour begins.
            let (warm, after) = [(WELL_USED, None), (5, Some(1)), (0, Some(1))][(seed as usize - 1) % 3];
            let swap = swappable && seed % 2 == 0;
            combos.push(Self { chaos: Some(seed), warm, after, swap, ..shimmed(&format!("chaos {seed}")) });
        }
        if swappable {
            combos.push(Self { swap: true, ..shimmed("swapped") });
            combos.push(Self { swap: true, warm: 0, ..shimmed("swapped newborn") });
        }
        match env::var("DP_COMPAT_COMBO") {
            Ok(wanted) => combos.into_iter().filter(|combo| combo.name.contains(&wanted)).collect(),
            Err(_) => combos,
        }
    }

    /// The server's command, with its whole environment.
    pub fn server_command(&self, program: &Path, home: &Path) -> Command {
        self.command(self.server, program, home)
    }

    /// The client's command, with its whole environment.
    pub fn client_command(&self, program: &Path, home: &Path) -> Command {
        self.command(self.client, program, home)
    }

    fn command(&self, side: Side, program: &Path, home: &Path) -> Command {
        let mut command = Command::new(program);
        // A clean environment: what the developer has set must not make two runs differ.
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C.UTF-8");
        command.env("PYTHONDONTWRITEBYTECODE", "1"); // the sources' folder stays as it is
        command.env("HOME", home).env("TMPDIR", home).current_dir(home);
        command
            .env("COMPAT_WARM", self.warm.to_string())
            .env("COMPAT_SWAP", if self.swap { "1" } else { "0" });
        command.env("COMPAT_ALARM", "60"); // only for orphans: the harness gives up earlier
        if side == Side::Native || native_only() {
            return command;
        }
        command.env("LD_PRELOAD", shim()).env("DP_LOST", home.join(LOST));
        for (name, value) in env::vars() {
            if (name.starts_with("DP_") && !name.starts_with("DP_COMPAT_")) || name == "XDG_RUNTIME_DIR" {
                command.env(name, value);
            }
        }
        for (name, value) in [("DP_CHAOS", self.chaos), ("DP_AFTER", self.after)] {
            if let Some(value) = value {
                command.env(name, value.to_string());
            }
        }
        // Where senders go back at random a log is written as well: nobody may tell.
        if self.chaos.is_some() {
            command.env("DP_LOG", format!("{}:debug", home.join(LOG).display()));
        }
        command
    }
}

/// The log in a run's folder, of those with [`Combo::chaos`].
const LOG: &str = "log";

/// The file in a run's folder to which the shim writes a line for each wake-up that was lost: [`crate::Job`] tells of it.
pub const LOST: &str = "lost";

/// Whether the shim is left out everywhere (`DP_COMPAT_NATIVE_ONLY=1`).
pub fn native_only() -> bool {
    env::var("DP_COMPAT_NATIVE_ONLY").is_ok_and(|value| value == "1")
}

fn number_from(variable: &str, otherwise: u32) -> u32 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The shim under test.
///
/// # Panics
/// If it has not been built: a compat test without the shim would prove nothing.
fn shim() -> PathBuf {
    let path =
        env::var_os("DP_SHIM").map_or_else(|| target_dir().join("release/libdp_preload.so"), PathBuf::from);
    path.canonicalize().unwrap_or_else(|error| {
        panic!("no shim at {} ({error}): run `cargo build --release` first, or set DP_SHIM", path.display())
    })
}
