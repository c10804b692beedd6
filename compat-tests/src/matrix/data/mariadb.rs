//! MariaDB: a thread for each connection; its InnoDB uses an io_uring for its files.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use super::common::{between, over, told, SHELL};
use crate::matrix::http::same;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{is_root, signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;
use crate::tools::generated;

const MARIADBD: Tool = Tool { program: "mariadbd", package: "mariadb-server-core" };
const INSTALL: Tool = Tool { program: "mariadb-install-db", package: "mariadb-server-core" };
const MARIADB: Tool = Tool { program: "mariadb", package: "mariadb-client-core" };
const SYSBENCH: Tool = Tool { program: "sysbench", package: "sysbench" };

const BLOB: usize = 20_000_000;
/// A statement of sysbench's and its answer are at least so long.
const STATEMENT: u64 = 100;
const ENDLESS: &str = "select a.seq, repeat('x', 1000) from d.seq_1_to_1000000000 a";

/// Debian's, with its io_uring.
pub const ROW: Row = Row {
    name: "mariadb",
    what: "a BLOB of 20 MB in and out, also to a slow reader; connections killed by KILL while they wait and while they \
           send, a killed client, a killed server",
    tools: &[MARIADBD, INSTALL, MARIADB, SYSBENCH],
    version: Version { tool: MARIADBD, arguments: &["--version"] },
    check,
    figures: &[
        Figure {
            what: "sysbench, point selects, 1 client",
            unit: "transactions/s",
            run: |run| bench(run, "oltp_point_select", 1),
            reason: None,
        },
        Figure {
            what: "sysbench, point selects, 16 clients",
            unit: "transactions/s",
            run: |run| bench(run, "oltp_point_select", 16),
            reason: None,
        },
        Figure {
            what: "sysbench, reads and writes, 4 clients",
            unit: "transactions/s",
            run: |run| bench(run, "oltp_read_write", 4),
            reason: None,
        },
    ],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let own = |mut command: Command| {
        command.args(["--no-defaults".into(), format!("--datadir={}", run.file("data").display())]);
        if is_root() {
            command.arg("--user=root");
        }
        command
    };
    let mut install = own(run.plain(INSTALL)?);
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    run.finish("mariadb-install-db", install)?;
    let mut command = own(run.server(MARIADBD)?);
    command.arg(format!("--port={port}"));
    for (option, file) in [("socket", "socket"), ("pid-file", "pid")] {
        command.arg(format!("--{option}={}", run.file(file).display()));
    }
    command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-allowed-packet=256M"]);
    command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=256M"]);
    run.serve("mariadbd", command, port)
}

fn asking(mut command: Command, port: u16, statements: &str) -> Command {
    command.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-uroot", "--max-allowed-packet=256M"]);
    command.args(["-N", "-r", "-q", "-B", &format!("-P{port}")]);
    if !statements.is_empty() {
        command.args(["-e", statements]);
    }
    command
}

fn client(run: &Run, port: u16, statements: &str) -> Result<Command, Error> {
    Ok(asking(run.client(MARIADB)?, port, statements))
}

/// A line of the shell's, in which `"$@"` is this command.
fn piped(run: &Run, command: &Command, line: &str) -> Result<Command, Error> {
    let mut shell = run.client(SHELL)?;
    shell.args(["-c", line, "sh"]).arg(command.get_program()).args(command.get_args());
    Ok(shell)
}

fn ask(run: &Run, port: u16, statements: &str) -> Result<String, Error> {
    Ok(run.finish("mariadb", client(run, port, statements)?)?.out)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let port = run.port()?;
    let mut blob = String::with_capacity(2 * BLOB);
    generated(BLOB).iter().for_each(|byte| {
        let _ = write!(blob, "{byte:02X}");
    });
    run.write("insert", format!("select 1;\ninsert into d.b values (1, x'{blob}');\n"))?;
    let mariadbd = start(run, port)?;

    let meter = Meter::start(run, &[("mariadb to mariadbd", &mariadbd)])?;
    ask(run, port, "create database d; create table d.b (i int primary key, v longblob)")?;
    run.finish("mariadb, inserting", piped(run, &client(run, port, "")?, "\"$@\" < insert")?)?;
    let fetch = "select hex(v) from d.b";
    same(
        "a BLOB",
        blob.as_bytes(),
        ask(run, port, &format!("select 1; {fetch}"))?.trim_start_matches("1\n").trim().as_bytes(),
    )?;
    // The client keeps nothing (-q), and writes into a pipe that nobody reads for a while.
    let many = format!("select 1; {fetch}; {fetch}; {fetch}");
    let slowly = piped(run, &client(run, port, &many)?, "\"$@\" | (sleep 1; cat > slowly)")?;
    run.finish("mariadb, slowly", slowly)?;
    let arrived = fs::read(run.file("slowly")).map_err(Error::system("slowly"))?;
    same("a BLOB three times, read slowly", format!("1\n{blob}\n{blob}\n{blob}\n").as_bytes(), &arrived)?;
    let rows = "select 1; select seq, md5(seq), repeat(md5(seq), 10) from d.seq_1_to_100000";
    let expected = ask_natively(run, port, rows)?;
    same("many rows", expected.as_bytes(), ask(run, port, rows)?.as_bytes())?;
    let legs = meter.legs(5 * 2 * BLOB as u64 + expected.len() as u64, 5)?;

    cut_off(run, port)?;
    let (client, _) = busy(run, port, ENDLESS, "select a.seq")?;
    signal(mariadbd.pid(), Signal::SIGKILL)?;
    told(client, LOST)?;
    Ok(legs)
}

fn ask_natively(run: &Run, port: u16, statements: &str) -> Result<String, Error> {
    Ok(run.finish("mariadb", asking(run.plain(MARIADB)?, port, statements))?.out)
}

const LOST: &[&str] = &["Lost connection", "gone away"];

/// Starts a client with this statement, and returns when the server is at it; with the connection's number.
fn busy(run: &Run, port: u16, statement: &str, seen: &str) -> Result<(Process, u64), Error> {
    let command = client(run, port, &format!("select 1; select 2; {statement}"))?;
    // What it prints goes nowhere: it would be kept in a file.
    let quiet = piped(run, &command, "exec \"$@\" > /dev/null")?;
    let client = run.start("mariadb, busy", quiet)?;
    let mut number = None;
    run.await_that("the statement is under way", || {
        number = at(run, port, seen)?;
        Ok(number.is_some())
    })?;
    Ok((client, number.unwrap_or_default()))
}

/// The connection that is at a statement that begins so.
fn at(run: &Run, port: u16, seen: &str) -> Result<Option<u64>, Error> {
    let said =
        ask(run, port, &format!("select id from information_schema.processlist where info like '{seen}%'"))?;
    let first = said.lines().next();
    first.map(|line| line.parse().map_err(|_| Error::words("mariadb", &said))).transpose()
}

fn cut_off(run: &Run, port: u16) -> Result<(), Error> {
    for (statement, seen) in [("select sleep(1000)", "select sleep"), (ENDLESS, "select a.seq")] {
        let (client, number) = busy(run, port, statement, seen)?;
        ask(run, port, &format!("kill {number}"))?;
        told(client, LOST)?;
    }
    let (client, number) = busy(run, port, ENDLESS, "select a.seq")?;
    signal(client.pid(), Signal::SIGKILL)?;
    over(client)?;
    run.await_that("the killed client's connection ends", || {
        Ok(at(run, port, "select a.seq")? != Some(number))
    })
}

fn bench(run: &Run, script: &str, clients: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    let mariadbd = start(run, port)?;
    ask_natively(run, port, "create database d")?;
    let sysbench = |mut command: Command, what: &str| {
        command.args([
            script,
            "--mysql-host=127.0.0.1",
            "--mysql-user=root",
            "--mysql-db=d",
            "--table-size=10000",
        ]);
        command.args([
            &format!("--mysql-port={port}"),
            &format!("--threads={clients}"),
            &format!("--time={}", run.seconds()),
        ]);
        command.arg(what);
        command
    };
    run.finish("sysbench, preparing", sysbench(run.plain(SYSBENCH)?, "prepare"))?;
    let meter = Meter::start(run, &[("sysbench to mariadbd", &mariadbd)])?;
    let load = parse(&run.finish("sysbench", sysbench(run.client(SYSBENCH)?, "run"))?.out)?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.queries * STATEMENT, clients.into())? })
}

/// What sysbench counted.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub queries: u64,
    pub rate: f64,
}

/// `transactions:  123939 (41288.06 per sec.)`, and nothing but zero behind `reconnects:`. Deadlocks of statements that
/// write are `ignored errors`, which sysbench tries again.
pub(super) fn parse(text: &str) -> Result<Load, Error> {
    let unknown = || Error::words("sysbench", text);
    let again: u64 = between(text, "reconnects:", "(").ok_or_else(unknown)?;
    Error::unless(again == 0, || format!("sysbench connected again {again} times"))?;
    let transactions = text.split_once("transactions:").ok_or_else(unknown)?.1;
    let queries = between(text, "queries:", "(").ok_or_else(unknown)?;
    Ok(Load { queries, rate: between(transactions, "(", " per sec.)").ok_or_else(unknown)? })
}
