//! What a difference looks like on paper: a script that can be replayed, with both results beside each line.

use std::fmt::Write;

use super::check::Difference;

impl Difference {
    /// The script with what TCP and the shim said as comments; the first line that differs is marked.
    pub fn to_text(&self, title: &str) -> String {
        let mut text = format!("# {title}\n");
        let _ = writeln!(text, "# {}: TCP | shim; the first difference is marked", self.shimmed.name());
        let widest =
            self.script.0.iter().map(|line| line.to_string().len()).max().unwrap_or_default().min(48);
        for (at, line) in self.script.0.iter().enumerate() {
            let (native, other) = (&self.native[at], &self.other[at]);
            let told = if native == other { native.clone() } else { format!("{native} | {other}") };
            let mark = if at == self.line { "   <===" } else { "" };
            let _ = writeln!(text, "{:widest$}  # {told}{mark}", line.to_string());
        }
        text
    }
}
