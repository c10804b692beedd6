//! A graph as the text of a file, which reads back as the same graph.

use std::fmt::Write;

use crate::trust::{Trust, Users};
use crate::{Graph, Xdp, DPIDS};

impl Graph {
    /// The text of `dp-graph.toml(5)`.
    ///
    /// Names are those that the rules allow: nothing in them needs an escape.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        if self.strict {
            text += "strict = true\n";
        }
        if self.endpoints != DPIDS {
            let _ = writeln!(text, "endpoints = [{}, {}]", self.endpoints.start(), self.endpoints.end());
        }
        if let Some(key) = &self.key {
            let _ = writeln!(text, "\n[security]\nkey = {}", quoted(key));
        }
        for Trust { route, security, users, speed, xdp } in &self.trusts {
            let _ = writeln!(text, "\n[route.{route}]\nsecurity = \"{}\"", security.word());
            if let Users::Map(all) = users {
                let all: Vec<_> = all.iter().map(|mapped| format!("\"{mapped}\"")).collect();
                let _ = writeln!(text, "users = \"map\"\nmap = [{}]", all.join(", "));
            }
            if let Some(speed) = speed {
                let _ = writeln!(text, "speed = \"{speed}\"");
            }
            if *xdp != Xdp::default() {
                let _ = writeln!(text, "xdp = \"{}\"", xdp.word());
            }
        }
        for node in &self.nodes {
            let _ = writeln!(text, "\n[[node]]\nnid = {}", node.nid);
            if let Some(name) = &node.name {
                let _ = writeln!(text, "name = \"{name}\"");
            }
            if !node.routes.is_empty() {
                let routes: Vec<_> = node.routes.iter().map(|route| quoted(&route.to_string())).collect();
                let _ = writeln!(text, "routes = [{}]", routes.join(", "));
            }
        }
        for process in &self.processes {
            let endpoints: Vec<_> = process.endpoints.iter().map(u16::to_string).collect();
            let _ = writeln!(text, "\n[[process]]\nname = \"{}\"\nnode = {}", process.name, process.nid);
            let _ = writeln!(text, "endpoints = [{}]", endpoints.join(", "));
        }
        for edge in &self.edges {
            let _ = writeln!(text, "\n[[edge]]\nfrom = \"{}\"\nto = \"{}\"", edge.from, edge.to);
            if let Some(route) = &edge.route {
                let _ = writeln!(text, "route = \"{route}\"");
            }
            if edge.raw {
                text += "raw = true\n";
            }
        }
        text
    }
}

/// Text without control characters as TOML has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
