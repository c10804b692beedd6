//! Redis' own tests, in Tcl: of clients, replication, pub/sub and a cluster of three.
//!
//! They start servers by `src/redis-server`, which here is a script that gives the server its side's environment; what
//! connects to them is Tcl, redis-cli and redis-benchmark, with the other side's. They are in Redis' source alone, of which
//! `.ci/redis-tests` fetches those of the redis-server that is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use super::common::SHELL;
use crate::matrix::legs::{left, Leg};
use crate::matrix::run::Run;
use crate::matrix::tool::{find, Tool, Version};
use crate::matrix::Row;
use crate::measure::redis::{BENCHMARK, SERVER};
use crate::measure::Error;

const CLI: Tool = Tool { program: "redis-cli", package: "redis-tools" };
const TCL: Tool = Tool { program: "tclsh", package: "tcl" };
/// Found below the target folder.
const TESTS: Tool = Tool {
    program: "target:redis-tests/tests/test_helper.tcl",
    package: "run: .ci/redis-tests, or leave them out with --without redis_tests",
};

/// Those that take little time, and ask for little of the clock.
const FEW: &[&str] = &["unit/protocol", "unit/pubsub", "unit/pubsubshard", "unit/quit", "unit/auth"];
const OTHERS: &[&str] = &[
    "unit/introspection",
    "unit/networking",
    "unit/limits",
    "unit/obuf-limits",
    "unit/querybuf",
    "unit/pendingquerybuf",
    "unit/replybufsize",
    "unit/client-eviction",
    "unit/multi",
    "unit/pause",
    "unit/tracking",
    "unit/type/list",
    "unit/wait",
    "unit/shutdown",
    "unit/cluster",
    "unit/cluster/links",
    "unit/cluster/misc",
    "unit/cluster-scripting",
    "integration/block-repl",
    "integration/failover",
    "integration/psync2",
    "integration/psync2-master-restart",
    "integration/psync2-pingoff",
    "integration/psync2-reg",
    "integration/redis-benchmark",
    "integration/redis-cli",
    "integration/replication",
    "integration/replication-2",
    "integration/replication-3",
    "integration/replication-4",
    "integration/replication-buffer",
    "integration/replication-psync",
    "integration/shutdown",
];
/// All of them come to an end within this on a busy machine, too.
const LIMIT: Duration = Duration::from_secs(40 * 60);
/// Where the servers' shims write what became of each connection.
const LOG: &str = "connections";

/// What they do is in their own words. They measure nothing.
pub const ROW: Row = Row {
    name: "redis_tests",
    what: "Redis' own tests, in Tcl, of the protocol, clients and their limits, blocking lists, transactions, tracking, pub/sub, \
           replication, failover and a cluster of three",
    tools: &[SERVER, BENCHMARK, CLI, TCL, SHELL, TESTS],
    version: Version { tool: SERVER, arguments: &["--version"] },
    check,
    figures: &[],
};

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    lay_out(run)?;
    let mut command = run.client(TCL)?;
    command.args(["tests/test_helper.tcl", "--clients", "3", "--timeout", "600", "--quiet"]);
    // Others may run them as well: what they find out of a free port does not hold against each other.
    command.args(["--baseport", &run.port()?.to_string(), "--portcount", "1500"]);
    let units = FEW.iter().chain(if run.is_fast() { &[] } else { OTHERS });
    units.for_each(|unit| _ = command.args(["--single", unit]));
    run.start("Redis' tests", command)?.finish(LIMIT)?;
    // What remains of it on the other sides says nothing.
    let log = if run.is_shimmed() {
        fs::read_to_string(run.file(LOG)).map_err(Error::system(LOG))?
    } else {
        String::new()
    };
    Ok(vec![leg(&log)])
}

/// A folder as that of the source, with the programs that are installed.
fn lay_out(run: &Run) -> Result<(), Error> {
    let tests = find(TESTS)?;
    let mut copy = run.plain(Tool { program: "cp", package: "coreutils" })?;
    copy.arg("-r").arg(tests.parent().unwrap_or(&tests)).arg("tests");
    run.finish("cp", copy)?;
    let folder = run.file("src");
    fs::create_dir(&folder).map_err(Error::system(folder.display()))?;
    for tool in [BENCHMARK, CLI] {
        symlink(find(tool)?, folder.join(tool.program)).map_err(Error::system(tool.program))?;
    }
    let mut server = run.server(SERVER)?;
    if run.is_shimmed() {
        server.env("DP_LOG", format!("{}:info", run.file(LOG).display()));
    }
    let script = run.write("src/redis-server", script(&server))?;
    fs::set_permissions(&script, Permissions::from_mode(0o755)).map_err(Error::system(script.display()))
}

/// A shell's, in the place of the command: the same process, its environment, and the script's arguments.
fn script(command: &Command) -> String {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"));
    let mut script = "#!/bin/sh\nexec /usr/bin/env -i".to_string();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            script += &format!(" {}={}", name.to_string_lossy(), quoted(value));
        }
    }
    script + " " + &quoted(command.get_program()) + " \"$@\"\n"
}

/// Of what the servers' shims have logged: the ends of connections that lasted. Many are closed after a call or two.
pub(super) fn leg(log: &str) -> Leg {
    let mut live = BTreeSet::new();
    let mut on_tcp = BTreeMap::<&str, u64>::new();
    for line in log.lines() {
        let mut words = line.split(' ').skip_while(|word| *word != "redis-server:").skip(1);
        let what = words.next();
        let value = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let end = (value("own"), value("other"));
        match (what, value("reason")) {
            (Some("live"), _) => _ = live.insert(end),
            // What it says of a channel is how that ended.
            (Some("leave"), Some(reason)) if reason != "closed" && !live.contains(&end) => {
                *on_tcp.entry(reason).or_default() += 1;
            }
            _ => {}
        }
    }
    let (channels, others) = (live.len() as u64, on_tcp.values().sum::<u64>());
    Leg {
        name: "to and from redis-server".into(),
        channels,
        connections: (channels + others).max(1),
        carried: 0,
        content: 0,
        on_tcp: left(&on_tcp),
        reason: None,
    }
}
