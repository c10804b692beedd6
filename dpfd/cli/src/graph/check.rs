//! `dp graph check`: whether a file is a graph, in words and as JSON.

use std::path::Path;

use dp_graph::Graph;
use serde::Serialize;

use super::{name, read, tell, write_out, Stop};

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize, Default)]
struct Report<'a> {
    version: u32,
    file: String,
    sound: bool,
    strict: Option<bool>,
    nodes: Option<usize>,
    processes: Option<usize>,
    endpoints: Option<usize>,
    edges: Option<usize>,
    routes: Vec<RouteLine<'a>>,
    faults: Vec<FaultLine<'a>>,
}

#[derive(Serialize)]
struct FaultLine<'a> {
    line: usize,
    column: usize,
    rule: &'a str,
    what: &'a str,
    way_out: &'a str,
}

#[derive(Serialize)]
struct RouteLine<'a> {
    route: &'a str,
    security: &'a str,
    users: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<String>,
}

pub fn check(path: &Path, json: bool) -> Result<(), Stop> {
    // The file of the key is named as seen from the graph's own.
    let beside = path.parent().unwrap_or(Path::new(""));
    let look =
        |key: &str| dp_seal::keyfile::read(&beside.join(key)).map(drop).map_err(|error| error.to_string());
    let parsed = Graph::parse_with(&read(path).map_err(Stop::Said)?, look);
    let endpoints = |graph: &Graph| graph.processes.iter().map(|p| p.endpoints.len()).sum::<usize>();
    if json {
        let mut report = Report { version: 1, file: path.display().to_string(), ..Report::default() };
        match &parsed {
            Ok(graph) => {
                report.sound = true;
                report.strict = Some(graph.strict);
                report.nodes = Some(graph.nodes.len());
                report.processes = Some(graph.processes.len());
                report.endpoints = Some(endpoints(graph));
                report.edges = Some(graph.edges.len());
                report.routes = routes(graph);
            }
            Err(faults) => {
                report.faults = faults
                    .list
                    .iter()
                    .map(|f| FaultLine {
                        line: f.line,
                        column: f.column,
                        rule: f.word,
                        what: &f.what,
                        way_out: &f.way_out,
                    })
                    .collect();
            }
        }
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data") + "\n";
        write_out(text.as_bytes(), None)?;
        return parsed.map(drop).map_err(|_| Stop::Told);
    }
    let graph = parsed.map_err(|faults| tell(path, &faults))?;
    let count = |n: usize, what: &str, more: &str| format!("{n} {what}{}", if n == 1 { "" } else { more });
    let counts = [
        count(graph.nodes.len(), "node", "s"),
        count(graph.processes.len(), "process", "es"),
        count(endpoints(&graph), "endpoint", "s"),
        count(graph.edges.len(), "edge", "s"),
    ];
    let strict = if graph.strict { ", strict" } else { "" };
    let mut told = format!("{}: {}{strict}\n", name(path), counts.join(", "));
    for RouteLine { route, security, users, speed } in routes(&graph) {
        let speed = speed.map_or(String::new(), |speed| format!(", speed {speed}"));
        told += &format!("{}: route {route}: security {security}, users {users}{speed}\n", name(path));
    }
    write_out(told.as_bytes(), None)
}

/// What holds on each route, by default or because the graph says so.
fn routes(graph: &Graph) -> Vec<RouteLine<'_>> {
    let of = |route| RouteLine {
        route,
        security: graph.security(route).word(),
        users: graph.users(route).word(),
        speed: graph.speed(route).map(|speed| speed.to_string()),
    };
    graph.routes().into_iter().map(of).collect()
}
