//! Servers of several setups side by side, and runs of equal length against them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Benchmark, Load, Run, Server, Traffic};
use crate::measure::cores::Cores;
use crate::measure::counters::Family;
use crate::measure::kit::{Kit, Setup};
use crate::measure::turns::Pace;
use crate::measure::Error;

/// A run that takes longer than it should by this much is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection that was closed keeps its port for a while; more than this in one run could use up all of them.
const MOST_CONNECTIONS: u64 = 6000;

/// One server a setup; AF_UNIX clients go to the one without the shim.
pub struct Session<'a> {
    kit: &'a Kit,
    cores: Cores,
    time: Duration,
    servers: Vec<Server>,
    paces: BTreeMap<(Setup, Load), Pace>,
}

/// How much of a server's traffic went through DP.
#[derive(Clone, Debug)]
pub struct Shared {
    /// As the server counts it.
    pub traffic: Traffic,
    /// The product's counters.
    pub family: Family,
}

impl Shared {
    /// The part that went through DP, 0 to 1.
    pub fn part(&self) -> f64 {
        let all = self.traffic.received + self.traffic.sent;
        (self.family.rx_bytes + self.family.tx_bytes) as f64 / (all as f64).max(1.0)
    }
}

impl<'a> Session<'a> {
    /// Starts the servers that the setups need. A run shall take about this time.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start(kit: &'a Kit, setups: &[Setup], cores: Cores, time: Duration) -> Result<Session<'a>, Error> {
        let mut session = Session { kit, cores, time, servers: Vec::new(), paces: BTreeMap::new() };
        for setup in setups {
            if session.servers.iter().all(|server| server.setup() != home(*setup)) {
                session.servers.push(Server::start(kit, home(*setup), cores)?);
            }
        }
        Ok(session)
    }

    /// A short run of each, to see how fast they go and to have everything warm.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn warm_up(&mut self, setups: &[Setup], load: Load) -> Result<(), Error> {
        setups.iter().try_for_each(|setup| self.run(*setup, load).map(drop))
    }

    /// One run.
    ///
    /// # Errors
    /// It fails or takes far too long.
    pub fn run(&mut self, setup: Setup, load: Load) -> Result<Run, Error> {
        let benchmark = self.begin(setup, load)?;
        let run = benchmark.finish(self.time + PATIENCE)?;
        self.paces.entry((setup, load)).or_insert_with(|| first_pace(load)).learn(run.rate);
        Ok(run)
    }

    /// The beginning of a run, for those who want to look while it goes on.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&self, setup: Setup, load: Load) -> Result<Benchmark<'_>, Error> {
        let pace = self.paces.get(&(setup, load)).copied().unwrap_or_else(|| first_pace(load));
        let requests = match load.keep {
            true => pace.requests(self.time),
            false => pace.requests(self.time).min(MOST_CONNECTIONS),
        };
        Benchmark::start(self.kit, self.server(setup)?, setup, load, requests, self.cores)
    }

    /// The product's counters of a setup's server beside the server's own; None without the shim.
    ///
    /// # Errors
    /// One of the two does not answer.
    pub fn shared(&mut self, setup: Setup) -> Result<Option<Shared>, Error> {
        let kit = self.kit;
        let server = self
            .servers
            .iter_mut()
            .find(|server| server.setup() == home(setup))
            .ok_or_else(|| none(setup))?;
        let traffic = server.traffic()?;
        Ok(server.family(kit)?.map(|family| Shared { traffic, family }))
    }

    /// The server of a setup.
    ///
    /// # Errors
    /// None was started for it.
    pub fn server(&self, setup: Setup) -> Result<&Server, Error> {
        self.servers.iter().find(|server| server.setup() == home(setup)).ok_or_else(|| none(setup))
    }
}

/// The setup of the server that clients of this one go to.
fn home(setup: Setup) -> Setup {
    match setup {
        Setup::Unix => Setup::Tcp,
        other => other,
    }
}

fn first_pace(load: Load) -> Pace {
    Pace::starting_with(if load.clients > 1 && load.keep { 5000 } else { 1000 })
}

fn none(setup: Setup) -> Error {
    Error::words("this program", &format!("no redis-server was started for {}", setup.name()))
}
