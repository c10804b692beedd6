//! A picture in the language of Graphviz.

use std::fmt::Write;

use crate::picture::{End, Mark, Picture};
use crate::Addr;

/// The text of a `.dot` file.
pub fn text(picture: &Picture) -> String {
    let mut out = String::from("digraph dpg {\n");
    out += "  rankdir=LR; compound=true; fontname=\"monospace\";\n";
    out += "  node [shape=circle, fontname=\"monospace\", margin=0.03]; edge [fontname=\"monospace\"];\n";
    for node in &picture.nodes {
        let nid = node.nid;
        let _ = writeln!(
            out,
            "  subgraph \"cluster_{nid}\" {{\n    label={}; style=rounded;",
            quoted(&node.title)
        );
        for (i, process) in node.processes.iter().enumerate() {
            let _ = writeln!(out, "    subgraph \"cluster_{nid}_{i}\" {{");
            let _ = writeln!(out, "      label={}; {}", quoted(&process.title), look(process.mark, "; "));
            if process.endpoints.is_empty() && process.channels.is_empty() {
                // Graphviz leaves out what is empty.
                let _ = writeln!(out, "      \"{nid}/none{i}\" [style=invis, label=\"\"];");
            }
            for (dpid, mark) in &process.endpoints {
                let name = Addr { nid, dpid: *dpid };
                let _ = writeln!(out, "      \"{name}\" [label=\"{dpid}\"{}];", more(*mark));
            }
            for (number, label) in &process.channels {
                let name = End::Channels(*number);
                let _ =
                    writeln!(out, "      \"{name}\" [shape=box, style=rounded, label={}];", quoted(label));
            }
            out += "    }\n";
        }
        out += "  }\n";
    }
    for edge in &picture.edges {
        let _ = writeln!(out, "  \"{}\" -> \"{}\" [{}];", edge.from, edge.to, look(edge.mark, ", "));
    }
    out + "}\n"
}

fn look(mark: Mark, between: &str) -> String {
    let words: &[&str] = match mark {
        Mark::Agreed => &["style=solid"],
        Mark::FileOnly => &["style=dashed", "color=gray40"],
        Mark::RunningOnly => &["style=bold", "color=red3"],
        Mark::Unseen => &["style=solid", "color=gray60"],
    };
    words.join(between)
}

fn more(mark: Mark) -> String {
    match mark {
        Mark::Agreed => String::new(),
        mark => format!(", {}", look(mark, ", ")),
    }
}

/// Text of others in quotes.
fn quoted(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}
