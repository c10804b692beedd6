//! What a program is given: the part of a graph that the library acts on, in the form that it reads.

use dpfd::graph::{EDGE, END, FIRST, STRICT};

use crate::Graph;

impl Graph {
    /// The text of a compiled graph, which [`dpfd::graph::Part`] reads.
    pub fn compile(&self) -> String {
        let mut lines = vec![FIRST.to_string()];
        if self.strict {
            lines.push(STRICT.to_string());
        }
        lines.extend(self.edges.iter().map(|edge| format!("{EDGE} {} {}", edge.from, edge.to)));
        lines.push(END.to_string());
        lines.join("\n") + "\n"
    }
}
