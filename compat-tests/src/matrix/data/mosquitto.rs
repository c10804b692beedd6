//! Mosquitto: what was acknowledged arrives, whoever is killed.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::Signal;

use super::common::{between, lost_by_all, over, python};
use crate::matrix::http::PYTHON;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const MOSQUITTO: Tool = Tool { program: "mosquitto", package: "mosquitto" };
const MESSAGES: usize = 3000;
/// Of a message of the helper's, on average.
const MESSAGE: u64 = 10_000;
const CLIENT: &str = "mqtt.py";

/// With persistence, so that a broker that is told to end loses nothing.
pub const ROW: Row = Row {
    name: "mosquitto",
    what: "publishing at QoS 1 of 30 MB and more to a subscriber whose session lasts: a killed publisher, a killed \
           subscriber, a broker that is stopped and started again; what was acknowledged arrives",
    tools: &[MOSQUITTO, PYTHON],
    version: Version { tool: MOSQUITTO, arguments: &["-h"] },
    check,
    figures: &[Figure { what: "publishing at QoS 1, 10 kB", unit: "messages/s", run: bench, reason: None }],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    lost_by_all(run)?;
    let folder = run.path().display();
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n\
         set_tcp_nodelay true\nmax_queued_messages 0\nmax_inflight_messages 100\nlog_type error\nlog_type warning\nuser root\n"
    );
    let file = run.write("mosquitto.conf", text)?;
    let mut command = run.server(MOSQUITTO)?;
    command.arg("-c").arg(file);
    run.serve("mosquitto", command, port)
}

fn subscribe(run: &Run, port: u16) -> Result<Process, Error> {
    let already = lines(run, "arrived").iter().filter(|line| *line == "subscribed").count();
    let process =
        run.start("subscriber", python(run, CLIENT, &["subscribe", &port.to_string(), "arrived"])?)?;
    run.await_that("the subscription", || {
        Ok(lines(run, "arrived").iter().filter(|line| *line == "subscribed").count() > already)
    })?;
    Ok(process)
}

fn publish(run: &Run, port: u16, first: usize, count: usize) -> Result<Process, Error> {
    let (port, first, count) = (port.to_string(), first.to_string(), count.to_string());
    run.start("publisher", python(run, CLIENT, &["publish", &port, "acknowledged", &first, &count])?)
}

/// All but the last, if that is only half of one.
fn lines(run: &Run, file: &str) -> Vec<String> {
    let text = fs::read_to_string(run.file(file)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_string).collect()
}

/// Waits until so many more are acknowledged.
fn await_more(run: &Run, more: usize) -> Result<(), Error> {
    let goal = lines(run, "acknowledged").len() + more;
    run.await_that("messages are acknowledged", || Ok(lines(run, "acknowledged").len() >= goal))
}

/// Waits until what was acknowledged has arrived.
fn all_arrived(run: &Run) -> Result<(), Error> {
    run.await_that("what was acknowledged arrives", || {
        let arrived: BTreeSet<String> = lines(run, "arrived").into_iter().collect();
        Ok(lines(run, "acknowledged").iter().all(|number| arrived.contains(number)))
    })
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    const LIMIT: std::time::Duration = crate::matrix::run::LIMIT;
    let port = run.port()?;
    let broker = start(run, port)?;
    let mut subscriber = subscribe(run, port)?;
    let meter = Meter::start(run, &[("clients to mosquitto", &broker)])?;
    publish(run, port, 0, MESSAGES)?.finish(LIMIT)?;
    all_arrived(run)?;
    // The subscriber may have become a channel before the meter began.
    let legs = meter.legs(2 * MESSAGES as u64 * MESSAGE, 1)?;

    let publisher = publish(run, port, 1_000_000, 1_000_000)?;
    await_more(run, 500)?;
    signal(publisher.pid(), Signal::SIGKILL)?;
    over(publisher)?;
    all_arrived(run)?;

    let publisher = publish(run, port, 3_000_000, MESSAGES)?;
    await_more(run, 500)?;
    signal(subscriber.pid(), Signal::SIGKILL)?;
    over(subscriber)?;
    publisher.finish(LIMIT)?;
    subscriber = subscribe(run, port)?;
    all_arrived(run)?;

    let publisher = publish(run, port, 4_000_000, 1_000_000)?;
    await_more(run, 500)?;
    signal(broker.pid(), Signal::SIGTERM)?;
    broker.finish(LIMIT)?;
    over(publisher)?;
    let _broker = start(run, port)?;
    all_arrived(run)?;
    subscriber.still_runs()?;
    Ok(legs)
}

fn bench(run: &Run) -> Result<Measured, Error> {
    const ROUGHLY: usize = 5000;
    let port = run.port()?;
    let broker = start(run, port)?;
    let meter = Meter::start(run, &[("publisher to mosquitto", &broker)])?;
    let count = ROUGHLY * run.time().as_secs().max(1) as usize;
    let command =
        python(run, CLIENT, &["publish", &port.to_string(), "acknowledged", "0", &count.to_string()])?;
    let said = run.finish("publisher", command)?.out;
    let value = between(&said, "in a second: ", "\n").ok_or_else(|| Error::words(CLIENT, &said))?;
    Ok(Measured { value, legs: meter.legs(count as u64 * MESSAGE, 1)? })
}
