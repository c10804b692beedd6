//! `dp node`: the gateway of this node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use dp_graph::{Graph, Xdp};
use dp_node::nart::{Machine, Nart};
use dp_node::serve::{CannotServe, Options, Server};
use dp_node::Limits;
use dp_seal::{keyfile, GraphKey};
use dpfd::addr::OWN_NID;
use dpfd::Nid;

use crate::graph::{name, read};

/// Where the graph is, if nothing else is said.
const GRAPH: &str = "/etc/dp/dp-graph.toml";

const AFTER_HELP: &str = "\
Programs of this node reach endpoints of other nodes as soon as it runs, in the DP_RUNTIME_DIR in which it runs; \
DP_NID must say there which node it is. It serves the library's endpoints, not those of the kernel driver. \
It runs until SIGTERM or SIGINT; see dp-node(8).
Exit status: 0 it was told to end, and nothing was left to do; 1 something failed; 2 a command line that cannot be \
used; 3 it was told to end, and messages were lost that no other node had acknowledged.";

/// Messages were lost.
const LOST: u8 = 3;

/// Serve the endpoints of other nodes here: the gateway of this node.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The graph, as dp-graph.toml(5) describes it: who the other nodes are, and where.
    #[arg(long, value_name = "FILE", default_value = GRAPH)]
    graph: PathBuf,
    /// Which node of the graph this is; else the one that has an address of this machine.
    #[arg(long, value_name = "NID", value_parser = clap::value_parser!(u16).range(1..=65534))]
    node: Option<Nid>,
    /// How long it looks for more before it sleeps, at most, microseconds: as long as that pays; 0, or with one CPU: not at all.
    #[arg(long, value_name = "USECS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    spin: u64,
    /// Flows that another node may begin; it drops frames for more.
    #[arg(long, value_name = "N", default_value_t = Limits::default().flows as u32, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: u32,
    /// MiB of parts and of messages that are not whole, for each other node.
    #[arg(long, value_name = "MIB", default_value_t = (Limits::default().bytes >> 20) as u32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    memory: u32,
    /// Whether Ethernet's frames are taken by AF_XDP, whatever the graph says.
    #[arg(long, value_name = "WHEN", value_parser = xdp())]
    xdp: Option<Xdp>,
    /// A shared object with a route of its own, as dp_route.h describes it; may be repeated.
    #[arg(long, value_name = "FILE")]
    route: Vec<PathBuf>,
}

pub fn main(args: Args) -> ExitCode {
    if let Err(code) = crate::check_environment("node") {
        return code;
    }
    // What programs may send is not for the gateway, which sends on behalf of all of them.
    std::env::remove_var("DP_GRAPH");
    let warn = |what: String| eprintln!("dp node: warning: {what}");
    let (mut nart, key) = match nart(&args) {
        Ok(found) => found,
        Err(why) => {
            eprintln!("dp node: {why}");
            return ExitCode::FAILURE;
        }
    };
    if OWN_NID.told().is_some_and(|told| told != u64::from(nart.nid)) {
        eprintln!(
            "dp node: DP_NID says that this is node {}, and the graph that it is node {}; programs must be told the same",
            OWN_NID.told().unwrap_or_default(),
            nart.nid
        );
        return ExitCode::FAILURE;
    }
    std::env::set_var(OWN_NID.name, nart.nid.to_string());
    nart.xdp = args.xdp.unwrap_or(nart.xdp);
    let (nid, others) = (nart.nid, nart.others.len());
    let options = Options {
        nart,
        key,
        spin: Duration::from_micros(args.spin),
        limits: Limits { flows: args.flows as usize, bytes: (args.memory as usize) << 20 },
        libraries: args.route,
    };
    match serve(options, warn, nid, others) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(lost) => {
            let s = if lost == 1 { "" } else { "s" };
            eprintln!("dp node: {lost} message{s} lost: no other node had acknowledged them when it was told to end");
            ExitCode::from(LOST)
        }
        Err(why) => {
            eprintln!("dp node: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: Options, warn: impl FnMut(String), nid: Nid, others: usize) -> Result<usize, CannotServe> {
    let mut server = Server::open(options, warn)?;
    let routes: Vec<_> = server.node().routes().iter().map(|route| route.local().to_string()).collect();
    let s = if others == 1 { "" } else { "s" };
    eprintln!("dp node: node {nid} at {}, {others} other node{s}", routes.join(", "));
    for route in server.node().routes() {
        if let Some(means) = route.means() {
            eprintln!("dp node: {}: {means}", route.local());
        }
    }
    server.run()
}

/// Shells complete these words.
fn xdp() -> impl TypedValueParser<Value = Xdp> {
    PossibleValuesParser::new(Xdp::words()).map(|word| Xdp::of_word(&word).expect("one of these"))
}

/// Where everybody is, and the key where frames are to be sealed.
fn nart(args: &Args) -> Result<(Nart, Option<GraphKey>), String> {
    let is_there = args.graph.exists();
    let text = read(&args.graph).map_err(|why| {
        if is_there {
            why
        } else {
            format!("{why}, or name one that is there: --graph FILE")
        }
    })?;
    let graph = Graph::parse(&text).map_err(|faults| {
        eprint!("{}", faults.told(&name(&args.graph)));
        format!("{}: no graph; `dp graph check` says the same", name(&args.graph))
    })?;
    let nid = match args.node {
        Some(nid) => nid,
        None => {
            let machine = Machine::look().map_err(|errno| format!("getifaddrs: {errno}"))?;
            machine.node_of(&graph).map_err(|why| format!("{}: {why}", name(&args.graph)))?
        }
    };
    let nart = Nart::of(&graph, nid).map_err(|why| format!("{}: {why}", name(&args.graph)))?;
    let file = graph.key.as_ref().filter(|_| nart.is_sealed());
    // Named as seen from the graph's own.
    let file = file.map(|key| args.graph.parent().unwrap_or(Path::new("")).join(key));
    let read = |file: PathBuf| keyfile::read(&file).map_err(|why| format!("{}: {why}", file.display()));
    Ok((nart, file.map(read).transpose()?))
}
