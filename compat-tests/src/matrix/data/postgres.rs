//! PostgreSQL: a process for each connection, and a client that cancels over a connection of its own.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use super::common::{between, left, not_as_root, over, told};
use crate::matrix::http::same;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;
use crate::tools::generated;

const POSTGRES: Tool = Tool { program: "/usr/lib/postgresql/*/bin/postgres", package: "postgresql" };
const INITDB: Tool = Tool { program: "/usr/lib/postgresql/*/bin/initdb", package: "postgresql" };
const PSQL: Tool = Tool { program: "/usr/lib/postgresql/*/bin/psql", package: "postgresql-client" };
const PGBENCH: Tool = Tool { program: "/usr/lib/postgresql/*/bin/pgbench", package: "postgresql" };

const LINES: usize = 40_000;
/// Of a line's content, in hexadecimal.
const LINE: usize = 512;
/// A statement of pgbench -S and its answer are at least so long.
const STATEMENT: u64 = 100;
/// Goes on until somebody ends it; what has come of it is seen in a file.
const ENDLESS: &str = "\\copy (select generate_series(1, 1000000000), repeat('x', 1000)) to program \
                       'head -c 1000000 > flood; cat > /dev/null'";

/// The server as a user of its own when root runs it.
pub const ROW: Row = Row {
    name: "postgres",
    what: "COPY of 20 MB in and out, also from a slow sender and to a slow reader; statements cancelled by the client; a \
           backend that is told to end, a killed client, a killed backend",
    tools: &[POSTGRES, INITDB, PSQL, PGBENCH],
    version: Version { tool: POSTGRES, arguments: &["--version"] },
    check,
    figures: &[
        Figure {
            what: "pgbench -S, 1 client of the server's user",
            unit: "transactions/s",
            run: |run| bench(run, 1, &["-S"], User::Servers),
            reason: None,
        },
        Figure {
            what: "pgbench -S, 8 clients of the server's user",
            unit: "transactions/s",
            run: |run| bench(run, 8, &["-S"], User::Servers),
            reason: None,
        },
        Figure {
            what: "pgbench -S, 32 clients of the server's user",
            unit: "transactions/s",
            run: |run| bench(run, 32, &["-S"], User::Servers),
            reason: None,
        },
        Figure {
            what: "pgbench -S, 8 clients",
            unit: "transactions/s",
            run: |run| bench(run, 8, &["-S"], User::Ours),
            reason: None,
        },
        Figure {
            what: "pgbench, TPC-B, 4 clients",
            unit: "transactions/s",
            run: |run| bench(run, 4, &[], User::Ours),
            reason: None,
        },
        Figure {
            what: "pgbench -S -C, a connection each, 2 clients",
            unit: "transactions/s",
            run: |run| bench(run, 2, &["-S", "-C"], User::Ours),
            reason: Some("each connection is a fork of the server, which the shim makes dearer"),
        },
    ],
};

/// Whose process pgbench is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// The server's: both wake each other by eventfds.
    Servers,
    /// That of the measurement, root as a rule, whom the server's user wakes by an eventfd, and who wakes it by a byte over a
    /// socket pair.
    Ours,
}

/// Whose the server is when root runs it: the first that there is.
const USERS: &[&str] = &["postgres", "nobody"];

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut initdb = run.plain(INITDB)?;
    initdb.args(["-D", "data", "-A", "trust", "-U", "postgres", "-N"]);
    not_as_root(run, &mut initdb, USERS)?;
    run.finish("initdb", initdb)?;
    let mut command = run.server(POSTGRES)?;
    command
        .args(["-D", "data", "-h", "127.0.0.1", "-F", "-N", "60", "-p", &port.to_string(), "-k"])
        .arg(run.path());
    not_as_root(run, &mut command, USERS)?;
    let postgres = run.serve("postgres", command, port)?;
    run.await_that("postgres answers", || {
        Ok(run.finish("psql", asking(run.plain(PSQL)?, port, &["select 1"])).is_ok())
    })?;
    Ok(postgres)
}

fn asking(mut command: Command, port: u16, statements: &[&str]) -> Command {
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
    command.args(["-p", &port.to_string(), "-d", "postgres"]);
    command.args(statements.iter().flat_map(|statement| ["-c", statement]));
    command
}

/// psql with these statements, one by one over the same connection.
fn psql(run: &Run, port: u16, statements: &[&str]) -> Result<Command, Error> {
    Ok(asking(run.client(PSQL)?, port, statements))
}

fn ask(run: &Run, port: u16, statements: &[&str]) -> Result<String, Error> {
    Ok(run.finish("psql", psql(run, port, statements)?)?.out.trim().to_string())
}

/// Lines that are told from each other by a number, in its order.
fn table() -> String {
    let content = generated(LINES * LINE / 2);
    let mut text = String::with_capacity(LINES * (LINE + 8));
    for (number, line) in content.chunks(LINE / 2).enumerate() {
        let _ = write!(text, "{number}\t");
        line.iter().for_each(|byte| {
            let _ = write!(text, "{byte:02x}");
        });
        text.push('\n');
    }
    text
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (port, sent) = (run.port()?, table());
    let file = run.write("sent", &sent)?;
    let postgres = start(run, port)?;
    let file = file.display();
    let arrived = |name: &str| fs::read(run.file(name)).map_err(Error::system(name));

    let meter = Meter::start(run, &[("psql to postgres", &postgres)])?;
    ask(run, port, &["create table t (i int primary key, v text)", &format!("\\copy t from '{file}'")])?;
    ask(run, port, &["select 1", "\\copy (select * from t order by i) to 'arrived'"])?;
    same("COPY out", sent.as_bytes(), &arrived("arrived")?)?;
    let slowly = "\\copy (select * from t order by i) to program 'sleep 1; cat > slowly'";
    ask(run, port, &["select 1", slowly])?;
    same("COPY out to a slow reader", sent.as_bytes(), &arrived("slowly")?)?;
    let slowly = format!("\\copy u from program 'head -c 1000000 {file}; sleep 1; tail -c +1000001 {file}'");
    ask(run, port, &["create table u (i int primary key, v text)", &slowly])?;
    ask(run, port, &["select 1", "\\copy (select * from u order by i) to 'again'"])?;
    same("COPY in from a slow sender", sent.as_bytes(), &arrived("again")?)?;
    let legs = meter.legs(5 * sent.len() as u64, 5)?;

    cancelled(run, port)?;
    cut_off(run, port)?;
    Ok(legs)
}

/// Starts a client with this statement after some others, and returns when the server is at it.
fn busy(run: &Run, port: u16, statement: &str, seen: &str) -> Result<(Process, u32), Error> {
    // What an earlier one has left would be taken for this one's.
    let _ = fs::remove_file(run.file("flood"));
    let client =
        run.start("psql, busy", psql(run, port, &["select 1", "select 2", "select 3", statement])?)?;
    let mut backend = None;
    run.await_that("the statement is under way", || {
        backend = backends(run, port, seen)?.first().copied();
        let flows = fs::metadata(run.file("flood")).is_ok_and(|file| file.len() >= 1_000_000);
        Ok(backend.is_some() && (flows || statement != ENDLESS))
    })?;
    Ok((client, backend.unwrap_or_default()))
}

/// Those that are at a statement that begins so.
fn backends(run: &Run, port: u16, seen: &str) -> Result<Vec<u32>, Error> {
    let query = format!("select pid from pg_stat_activity where state = 'active' and query ilike '{seen}%'");
    let said = ask(run, port, &[&query])?;
    said.lines().map(|line| line.parse().map_err(|_| Error::words("psql", &said))).collect()
}

const SLEEPING: [&str; 2] = ["select pg_sleep(1000)", "select pg_sleep"];
const COPYING: [&str; 2] = [ENDLESS, "copy"];

/// By Ctrl-C at the client, and by another one.
fn cancelled(run: &Run, port: u16) -> Result<(), Error> {
    const WORDS: &[&str] = &["canceling statement", "Cancel request sent"];
    for [statement, seen] in [SLEEPING, COPYING] {
        let (client, _) = busy(run, port, statement, seen)?;
        signal(client.pid(), Signal::SIGINT)?;
        told(client, WORDS)?;
        let (client, backend) = busy(run, port, statement, seen)?;
        ask(run, port, &[&format!("select pg_cancel_backend({backend})")])?;
        told(client, WORDS)?;
    }
    Ok(())
}

/// Backends that end while they send, clients that are killed while they receive.
fn cut_off(run: &Run, port: u16) -> Result<(), Error> {
    const WORDS: &[&str] =
        &["terminating connection", "server closed the connection", "connection to server was lost"];
    for [statement, seen] in [SLEEPING, COPYING] {
        let (client, backend) = busy(run, port, statement, seen)?;
        ask(run, port, &[&format!("select pg_terminate_backend({backend})")])?;
        told(client, WORDS)?;
    }
    let [statement, seen] = COPYING;
    let (client, _) = busy(run, port, statement, seen)?;
    signal(client.pid(), Signal::SIGKILL)?;
    over(client)?;
    run.await_that("the killed client's backend ends", || Ok(backends(run, port, seen)?.is_empty()))?;
    for [statement, seen] in [SLEEPING, COPYING] {
        let (client, backend) = busy(run, port, statement, seen)?;
        signal(backend, Signal::SIGKILL)?;
        told(client, WORDS)?;
        // The server ends all others, and begins anew.
        run.await_that("postgres is back", || Ok(ask(run, port, &["select count(*) from t"]).is_ok()))?;
    }
    Ok(())
}

fn bench(run: &Run, count: u32, more: &[&str], user: User) -> Result<Measured, Error> {
    let port = run.port()?;
    let postgres = start(run, port)?;
    let pgbench = |command: Command, arguments: &[&str]| {
        let mut command = command;
        command
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()])
            .args(arguments)
            .arg("postgres");
        command
    };
    run.finish("pgbench -i", pgbench(run.plain(PGBENCH)?, &["-i", "-q", "-s", "10"]))?;
    // A server that has just been started reads its tables, and what it shares, for the first time.
    run.finish("pgbench", pgbench(run.plain(PGBENCH)?, &["-n", "-S", "-T", "1", "-c", "8"]))?;
    let meter = Meter::start(run, &[("pgbench to postgres", &postgres)])?;
    let mut arguments = vec!["-n", "-T"];
    let (seconds, clients) = (run.seconds(), count.to_string());
    arguments.extend([seconds.as_str(), "-c", clients.as_str()]);
    arguments.extend(more);
    let mut load = pgbench(run.client(PGBENCH)?, &arguments);
    if user == User::Servers {
        not_as_root(run, &mut load, USERS)?;
    }
    let said = run.finish("pgbench", load)?.out;
    let load = parse(&said)?;
    // On a busy machine some of many clients come to nothing within the time.
    let connections = if count > 8 { count / 2 } else { count };
    let mut legs = meter.legs(load.transactions * STATEMENT, connections.into())?;
    if more.contains(&"-C") {
        let few = "a connection of one statement is over before it would be a channel";
        legs = left(run, legs, "closed", few)?;
    }
    Ok(Measured { value: load.rate, legs })
}

/// What pgbench counted.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub transactions: u64,
    pub rate: f64,
}

/// `number of transactions actually processed: 16`, `number of failed transactions: 0 (0.000%)`, `tps = 15.5 (`
pub(super) fn parse(text: &str) -> Result<Load, Error> {
    let unknown = || Error::words("pgbench", text);
    let failed: u64 = between(text, "number of failed transactions: ", " (").ok_or_else(unknown)?;
    Error::unless(failed == 0, || format!("pgbench: {failed} transactions failed"))?;
    let transactions =
        between(text, "number of transactions actually processed: ", "\n").ok_or_else(unknown)?;
    Ok(Load { transactions, rate: between(text, "tps = ", " (").ok_or_else(unknown)? })
}
