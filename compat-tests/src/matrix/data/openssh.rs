//! OpenSSH: the server executes itself for each connection, and then locks itself in.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use super::common::{left, over, timed, SHELL};
use crate::matrix::http::same;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{children, is_root, signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const SSHD: Tool = Tool { program: "/usr/sbin/sshd", package: "openssh-server" };
const KEYGEN: Tool = Tool { program: "ssh-keygen", package: "openssh-client" };
const SSH: Tool = Tool { program: "ssh", package: "openssh-client" };
const SCP: Tool = Tool { program: "scp", package: "openssh-client" };
const SIZE: usize = 50_000_000;
const EXECUTED: &str =
    "sshd executes itself with the connection as its standard input and output (`stdio`); without that, \
                        its filter of system calls would end the channel (`sandbox`)";

/// sshd with keys of its own on a port of its own.
pub const ROW: Row = Row {
    name: "openssh",
    what: "scp of 50 MB both ways, 50 MB through a remote cat with new keys for each 4 MB, a slow reader; a killed client, a \
           killed server",
    tools: &[SSHD, KEYGEN, SSH, SCP],
    version: Version { tool: SSH, arguments: &["-V"] },
    check,
    figures: &[Figure { what: "scp of 50 MB", unit: "MB/s", run: bench, reason: Some(EXECUTED) }],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    for key in ["host", "id"] {
        let mut command = run.plain(KEYGEN)?;
        command.args(["-q", "-t", "ed25519", "-N", "", "-f", key]);
        run.finish("ssh-keygen", command)?;
    }
    if is_root() {
        // Where it locks its unprivileged half in.
        fs::create_dir_all("/run/sshd").map_err(Error::system("/run/sshd"))?;
    }
    let folder = run.path().display();
    let text = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/id.pub\nStrictModes no\n\
         UsePAM no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\nPidFile {folder}/sshd.pid\n"
    );
    let file = run.write("sshd.conf", text)?;
    let mut command = run.server(SSHD)?;
    command.args(["-D", "-e", "-f"]).arg(file);
    run.serve("sshd", command, port)
}

fn options(mut command: Command) -> Command {
    command.args([
        "-F",
        "none",
        "-i",
        "id",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]);
    command.args(["-o", "LogLevel=ERROR", "-o", "BatchMode=yes"]);
    command
}

fn user() -> String {
    let name = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten();
    format!("{}@127.0.0.1", name.map_or("root".into(), |user| user.name))
}

fn scp(run: &Run, port: u16, from: &str, to: &str) -> Result<Command, Error> {
    let mut command = options(run.client(SCP)?);
    command.args(["-q", "-P", &port.to_string(), from, to]);
    Ok(command)
}

/// A shell's line, of which `$SSH` and its arguments are a part.
fn piped(run: &Run, port: u16, line: &str, remote: &str) -> Result<Command, Error> {
    let ssh = options(run.client(SSH)?);
    let mut command = run.client(SHELL)?;
    command.args(["-c", line, "sh"]).arg(ssh.get_program()).args(ssh.get_args());
    command.args(["-o", "RekeyLimit=4M", "-p", &port.to_string(), &user(), remote]);
    Ok(command)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (port, content) = (run.port()?, run.write_generated("sent", SIZE)?);
    let arrived = |name: &str| fs::read(run.file(name)).map_err(Error::system(name));
    let sshd = start(run, port)?;
    let folder = run.path().display();
    let meter = Meter::start(run, &[("ssh to sshd", &sshd)])?;
    run.finish("scp, up", scp(run, port, "sent", &format!("{}:{folder}/up", user()))?)?;
    same("scp, up", &content, &arrived("up")?)?;
    run.finish("scp, down", scp(run, port, &format!("{}:{folder}/sent", user()), "down")?)?;
    same("scp, down", &content, &arrived("down")?)?;
    run.finish("ssh, both ways", piped(run, port, "\"$@\" < sent > both", "cat")?)?;
    same("ssh, both ways with new keys", &content, &arrived("both")?)?;
    let slowly = "\"$@\" < sent | (sleep 1; cat > slowly)";
    run.finish("ssh, slowly", piped(run, port, slowly, "cat")?)?;
    same("ssh, read slowly", &content, &arrived("slowly")?)?;
    let legs = left(run, meter.legs(6 * SIZE as u64, 4)?, "stdio", EXECUTED)?;

    let endless = || {
        run.start("ssh, busy", piped(run, port, "exec \"$@\" > flood", "cat /dev/zero | head -c 1000000000")?)
    };
    let flows = || Ok(fs::metadata(run.file("flood")).is_ok_and(|file| file.len() > 1_000_000));
    let client = endless()?;
    run.await_that("the flood begins", flows)?;
    signal(client.pid(), Signal::SIGKILL)?;
    over(client)?;
    run.await_that("sshd's children end", || Ok(children(sshd.pid()).is_empty()))?;
    fs::remove_file(run.file("flood")).map_err(Error::system("flood"))?;
    let client = endless()?;
    run.await_that("the flood begins", flows)?;
    let below: Vec<u32> =
        children(sshd.pid()).into_iter().flat_map(|pid| [children(pid), vec![pid]].concat()).collect();
    below.iter().try_for_each(|victim| signal(*victim, Signal::SIGKILL))?;
    over(client)?;
    run.finish("scp, at last", scp(run, port, "sent", &format!("{}:{folder}/last", user()))?)?;
    same("scp, at last", &content, &arrived("last")?)?;
    Ok(legs)
}

fn bench(run: &Run) -> Result<Measured, Error> {
    let (port, content) = (run.port()?, run.write_generated("sent", SIZE)?);
    let sshd = start(run, port)?;
    let meter = Meter::start(run, &[("scp to sshd", &sshd)])?;
    let from = format!("{}:{}/sent", user(), run.path().display());
    let (value, _) = timed(run, "scp", scp(run, port, &from, "down")?, content.len() as u64)?;
    same("scp", &content, &fs::read(run.file("down")).map_err(Error::system("down"))?)?;
    let legs = left(run, meter.legs(SIZE as u64, 1)?, "stdio", EXECUTED)?;
    Ok(Measured { value, legs })
}
