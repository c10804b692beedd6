//! The kit of a measurement: the tools that must be there, and how a program is started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Serialize, Serializer};

use super::cores::Cores;
use super::process::Process;
use super::scratch::{catch_interrupts, Scratch};
use super::Error;

/// How a program is started, and so how the bytes of its connections travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setup {
    /// TCP over the loopback, without the shim.
    Tcp,
    /// An AF_UNIX stream socket, without the shim.
    Unix,
    /// The same program and arguments as for TCP, under `dp run`.
    Dp,
    /// Under `dp run` with rules that leave every connection on TCP.
    LeftAlone,
    /// Under `dp run`, beside many idle connections ([`super::crowd`]).
    Beside,
    /// Under `dp run`, while others look at it ([`super::lookers`]).
    LookedAt,
}

impl Setup {
    /// As it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Setup::Tcp => "TCP",
            Setup::Unix => "AF_UNIX",
            Setup::Dp => "DP",
            Setup::LeftAlone => "left alone",
            Setup::Beside => "DP, crowded",
            Setup::LookedAt => "DP, looked at",
        }
    }

    /// As it is called in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Setup::Tcp => "tcp",
            Setup::Unix => "unix",
            Setup::Dp => "dp",
            Setup::LeftAlone => "left_alone",
            Setup::Beside => "beside",
            Setup::LookedAt => "looked_at",
        }
    }

    /// The rules of a setup with the shim.
    fn rules(self) -> Option<&'static str> {
        match self {
            Setup::Tcp | Setup::Unix => None,
            Setup::Dp | Setup::Beside | Setup::LookedAt => Some("channel any localhost"),
            Setup::LeftAlone => Some("tcp any *"),
        }
    }
}

impl Serialize for Setup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

/// A program of others that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its command.
    pub program: &'static str,
    /// Debian's package of it.
    pub package: &'static str,
}

/// Everything a measurement stands on. Processes must be gone before it is dropped, for its folder goes with it.
pub struct Kit {
    dp: PathBuf,
    /// The cores of servers and clients.
    pub cores: Cores,
    /// Logs and AF_UNIX sockets.
    pub scratch: Scratch,
}

impl Kit {
    /// Finds `dp` (beside this program, unless named), tries it, makes a folder, and lets Ctrl-C end things in
    /// an orderly way from here on.
    ///
    /// # Errors
    /// Something is missing; the error says how to get it.
    pub fn new(dp: Option<PathBuf>, cores: Cores) -> Result<Kit, Error> {
        let dp = match dp {
            Some(named) => named,
            None => env::current_exe().map_err(Error::system("/proc/self/exe"))?.with_file_name("dp"),
        };
        // Programs are started in another folder.
        let dp = dp.canonicalize().map_err(|_| Error::NoDp(dp))?;
        let kit = Kit { dp, cores, scratch: Scratch::new()? };
        kit.try_dp()?;
        catch_interrupts()?;
        Ok(kit)
    }

    /// A command that starts the program in this setup, with the developer's settings kept out of it.
    pub fn command(&self, setup: Setup, tool: Tool) -> Command {
        self.command_at(setup, Path::new(tool.program))
    }

    /// The same for a program of ours, by its path.
    pub fn command_at(&self, setup: Setup, program: &Path) -> Command {
        let mut command = match setup.rules() {
            None => Command::new(program),
            Some(rules) => {
                let mut command = self.dp();
                command.env("DP_RULES", rules).args(["run", "--"]).arg(program);
                command
            }
        };
        // A shim that is already there would make TCP something else; other words would not be understood.
        command.env_remove("LD_PRELOAD").env_remove("DP_DISABLE").env("LC_ALL", "C");
        command
    }

    /// Starts it on a core, or wherever it wants to be.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        &self,
        command: Command,
        what: &str,
        core: impl Into<Option<usize>>,
    ) -> Result<Process, Error> {
        Process::start(what, command, core, &self.scratch)
    }

    /// The product's command.
    pub fn dp(&self) -> Command {
        Command::new(&self.dp)
    }

    /// `dp run` knows best what is missing when the shim is.
    fn try_dp(&self) -> Result<(), Error> {
        let mut command = self.command(Setup::Dp, Tool { program: "true", package: "coreutils" });
        let tried = command.stdin(Stdio::null()).output().map_err(Error::system(self.dp.display()))?;
        match tried.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&tried.stderr).trim().to_string();
                Err(Error::DpRun(if said.is_empty() { tried.status.to_string() } else { said }))
            }
        }
    }
}

/// Fails with the first of the tools that is not installed.
///
/// # Errors
/// [`Error::Missing`].
pub fn require(tools: &[Tool]) -> Result<(), Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = |tool: &Tool| env::split_paths(&path).any(|folder| is_file(&folder.join(tool.program)));
    match tools.iter().find(|tool| !installed(tool)) {
        None => Ok(()),
        Some(Tool { program, package }) => Err(Error::Missing { program, package }),
    }
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file())
}
