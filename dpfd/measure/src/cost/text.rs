//! The tables for people.

use super::report::{Bandwidth, Findings, Message, Parameter, Rate, Report};
use crate::origin::Place;
use crate::printed::{half, Printed};

impl Printed for Report {
    fn text(&self) -> String {
        let [l1, l2, l3] = self.caches.map(bytes);
        let mut text = format!(
            "Cost model {}, p = {}, packets of b = {} bytes, {:.0} s; caches of {l1}, {l2}, {l3}\n\n",
            self.place.words(),
            self.p,
            self.packet,
            self.seconds
        );
        text += &lines(["", "packets"], "Memory copies", &self.copies);
        for way in &self.ways {
            text += &way.text(self.packet, self.place);
        }
        text += &format!("\n{}\n", self.origin.line());
        text
    }
}

impl Findings {
    fn text(&self, packet: usize, place: Place) -> String {
        let driver = self.driver.as_deref().map_or(String::new(), |driver| format!(", {driver} driver"));
        let title = format!("{}{driver}, {} rounds", self.way, self.rounds);
        let mut text = format!("\n{}", lines(["piece", "packets"], &title, &self.parameters));
        if let Some(b_l) = &self.b_l {
            text += &format!(
                "B_L  {:.0} bytes, {:.0} beside each packet, error {:.1} %: {}\n",
                b_l.bytes,
                b_l.beside,
                b_l.error,
                b_l.packets.iter().map(|(m, n)| format!("{n:.0} of {m}")).collect::<Vec<_>>().join(", ")
            );
        }
        let c = &self.condition;
        text += &format!(
            "\nOf {packet} bytes: O_s {} + O_r {} + U_r {} < g {} < L {} {}; slowest: the {}\n",
            time(c.costs.o_s),
            time(c.costs.o_r),
            time(c.costs.u_r),
            time(c.costs.g),
            time(c.costs.l),
            if c.holds { "holds" } else { "does not hold" },
            c.bound.word()
        );
        text += &self.messages_text();
        text += &self.bandwidth_text(place);
        for note in &self.notes {
            text += &format!("{}: {note}\n", self.way);
        }
        text
    }

    fn messages_text(&self) -> String {
        let mut text = format!(
            "\n{:>10} {:>6}  {:<9}{:>12}{:>12}{:>9}{:>9}\n",
            "M, bytes", "k", "by", "predicted", "measured", "error", "\u{b1}"
        );
        let (whole, cut): (Vec<_>, Vec<_>) = self.messages.iter().partition(|m| m.k == 1);
        for m in whole.into_iter().chain(cut) {
            text += &row(m);
        }
        let e = &self.median_error;
        let pieces: Vec<_> = e.pieces.iter().map(|(piece, e)| format!("{piece} {}", percent(*e))).collect();
        text += &format!(
            "median error {}; of one packet {} ({}), of several {}\n",
            percent(e.all),
            percent(e.whole),
            pieces.join(", "),
            percent(e.cut)
        );
        text
    }

    fn bandwidth_text(&self, place: Place) -> String {
        if self.bandwidth.is_empty() {
            return String::new();
        }
        let mut text = format!(
            "\n10 MB, MB/s of each process\n{:>10}{:>16}{:>16}{:>16}{:>16}\n",
            "packet", "one way", "with EAGAIN", "exchange", "two threads"
        );
        for Bandwidth { packet, one_direction, one_direction_eagain, exchange, exchange_threads } in
            &self.bandwidth
        {
            let cell = |rate: Option<Rate>| match rate {
                Some(rate) => format!("{:>16}", format!("{:.0} \u{b1} {}", rate.mb_per_s, half(rate.half))),
                None => format!("{:>16}", "-"),
            };
            let cells =
                [Some(*one_direction), *one_direction_eagain, Some(*exchange), *exchange_threads].map(cell);
            text += &format!("{packet:>10}{}\n", cells.concat());
        }
        text += match place {
            Place::Cores(_) => "All with the reliable layer: a local way loses nothing, and has no other.\n",
            Place::Node(_) => "All with the reliable layer.\n",
        };
        text
    }
}

fn row(m: &Message) -> String {
    let by = m.bound.map_or(m.piece.as_str(), |bound| bound.word());
    format!(
        "{:>10} {:>6}  {by:<9}{:>12}{:>12}{:>9}{:>9}\n",
        m.size,
        m.k,
        time(m.predicted),
        time(m.measured),
        if m.error.is_finite() { format!("{:+.1} %", m.error) } else { "-".to_string() },
        if m.half.is_finite() { format!("{:.1} %", m.half) } else { "?".to_string() },
    )
}

/// Pieces of straight lines.
fn lines([piece, packets]: [&str; 2], title: &str, parameters: &[Parameter]) -> String {
    let mut text = format!(
        "{title}\n{:<6}{piece:<6}{packets:>20} {:>11} {:>11} {:>9}{:>10}{:>10}\n",
        "", "k ns", "t ns/KiB", "\u{b1}", "error", "worst"
    );
    for parameter in parameters {
        for p in &parameter.pieces {
            let to = p.to.map_or("up".to_string(), |to| to.to_string());
            let half =
                if p.t_half.is_finite() { format!("{:.1}", 1024.0 * p.t_half) } else { "?".to_string() };
            let [k, t] = match p.k.is_finite() {
                true => [format!("{:.1}", p.k), format!("{:.2}", 1024.0 * p.t)],
                false => ["unknown".to_string(), "?".to_string()],
            };
            text += &format!(
                "{:<6}{:<6}{:>20} {k:>11} {t:>11} {half:>9}{:>10}{:>10}\n",
                parameter.name,
                p.piece,
                format!("{} to {to}", p.from),
                percent(p.error),
                percent(p.worst),
            );
        }
    }
    text
}

/// What is many times as far off as it is long, as O_r is where it is 0, is no part of it; nor is what there is none of.
fn percent(part: f64) -> String {
    if part < 1000.0 {
        format!("{part:.1} %")
    } else {
        "-".to_string()
    }
}

/// Nanoseconds in the unit that suits them.
fn time(ns: f64) -> String {
    match ns.abs() {
        a if !a.is_finite() => "unknown".to_string(),
        a if a >= 999_500.0 => format!("{:.2} ms", ns / 1e6),
        a if a >= 999.5 => format!("{:.2} \u{b5}s", ns / 1e3),
        a if a >= 9.95 => format!("{ns:.0} ns"),
        _ => format!("{ns:.1} ns"),
    }
}

fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n => format!("{} KiB", n >> 10),
    }
}
