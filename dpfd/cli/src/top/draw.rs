//! The picture on the terminal: a line about all, the views, the lines of one of them, the channel that is followed, and
//! what there is to say.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use super::keys::Ui;
use super::rows::{Kind, Row};
use super::{head, latency, table, Look};

const HELP: [&str; 17] = [
    "1 - 6, Tab       programs, connections, endpoints, edges, routes, flows",
    "up, down, PgUp, PgDn, Home, End",
    "                 choose a line",
    "< >              sort by another value",
    "r                the other way round",
    "/                filter: a program's name, with * and ?, or options of dp ls:",
    "                 --pid 71  --state tcp  --reason no-offer",
    "Enter, l         follow how long bytes stay in the chosen channel; again: no more",
    "p                pause, go on",
    "space            look at once",
    "+ -              more, less time from look to look",
    "^L               draw everything anew",
    "^Z               stop; fg goes on",
    "Esc              back",
    "q, ^C            end",
    "",
    "TX is what the line's end sends, RX what it receives. Any key goes on.",
];

/// Lines and columns below which there is no room for anything.
const LEAST: (u16, u16) = (20, 5);

/// Whether there are colours: not with NO_COLOR, <https://no-color.org>.
#[derive(Clone, Copy)]
pub struct Colours(pub bool);

impl Colours {
    pub fn of_environment() -> Colours {
        Colours(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn of(self, colour: Color) -> Style {
        if self.0 {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// One picture.
pub struct Picture<'a> {
    pub ui: &'a mut Ui,
    pub look: &'a Look,
    /// All lines that the filter leaves, in order.
    pub rows: &'a [Row],
    pub every: f64,
    pub colours: Colours,
}

impl Picture<'_> {
    pub fn draw(mut self, buffer: &mut Buffer) {
        let area = buffer.area;
        if area.width < LEAST.0 || area.height < LEAST.1 {
            put(buffer, 0, "too small", Style::new());
            return;
        }
        put(buffer, 0, &format!("dp top  {}", head(self.look, self.rows)), bold());
        self.views(buffer, 1);
        if self.ui.help {
            for (y, line) in (3..area.height).zip(HELP) {
                put(buffer, y, line, Style::new());
            }
            return;
        }
        // The list keeps half of the screen.
        let followed = self.followed(area.width.into(), usize::from(area.height / 2));
        let below = followed.len() as u16;
        let missing = self.look.said.first();
        let end = area.height - 1 - below - u16::from(missing.is_some());
        self.list(buffer, 2, end);
        if let Some(missing) = missing {
            put(buffer, area.height - 2, missing, self.colours.of(Color::Red));
        }
        for (y, line) in (end..end + below).zip(&followed) {
            put(buffer, y, line, self.colours.of(Color::Cyan));
        }
        let (line, style) = self.last_line();
        put(buffer, area.height - 1, &line, style);
    }

    fn views(&self, buffer: &mut Buffer, y: u16) {
        let names = ["Programs", "Connections", "Endpoints", "Edges", "Routes", "Flows"];
        let mut x = 0;
        for (kind, name) in Kind::ALL.into_iter().zip(names) {
            let count = self.rows.iter().filter(|row| row.kind == kind).count();
            let number = kind as usize + 1;
            let text =
                if count > 0 { format!(" {number} {name} {count}") } else { format!(" {number} {name}") };
            let style = if kind == self.ui.view { reversed() } else { Style::new() };
            let room = buffer.area.width.saturating_sub(x);
            x = buffer.set_stringn(x, y, &text, room.into(), style).0;
        }
    }

    /// From line `from` to line `to`, without the latter.
    fn list(&mut self, buffer: &mut Buffer, from: u16, to: u16) {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.kind == self.ui.view).collect();
        let room = usize::from(to.saturating_sub(from + 1));
        self.ui.settle(&rows, room);
        if rows.is_empty() {
            put(
                buffer,
                from,
                "nothing of this kind is there, or the filter leaves none",
                self.colours.of(Color::DarkGray),
            );
            return;
        }
        let lines = table::lines(self.ui.view, &rows, Some(buffer.area.width.into()));
        let (title, lines) = lines.split_first().expect("a head is always there");
        put(buffer, from, title, self.colours.of(Color::Blue).patch(bold()));
        let shown = lines.iter().zip(&rows).enumerate().skip(self.ui.first).take(room);
        for (y, (i, (line, row))) in (from + 1..to).zip(shown) {
            let style = if i == self.ui.chosen { reversed() } else { self.style(row) };
            let width = usize::from(buffer.area.width);
            put(buffer, y, &format!("{line:<width$}"), style);
        }
    }

    fn style(&self, row: &Row) -> Style {
        let rates = [
            row.tx_bytes_per_second,
            row.rx_bytes_per_second,
            row.tx_messages_per_second,
            row.rx_messages_per_second,
        ];
        match () {
            () if row.reason.is_some() || matches!(&*row.state, "tcp" | "down" | "absent") => {
                self.colours.of(Color::Yellow)
            }
            () if rates.iter().flatten().any(|&rate| rate > 0.0) => Style::new(),
            () => self.colours.of(Color::DarkGray),
        }
    }

    /// How long bytes stay in the channel that was chosen.
    fn followed(&self, width: usize, height: usize) -> Vec<String> {
        let told = self.look.latency.as_ref().filter(|_| self.ui.follows);
        told.map(|(ends, told)| latency::pane(*ends, told, width, height)).unwrap_or_default()
    }

    /// What is typed, or what there is to say, or how it is shown.
    fn last_line(&self) -> (String, Style) {
        let ui = &self.ui;
        if let Some(line) = &ui.typed {
            return (format!("filter: {line}_"), bold());
        }
        if let Some(said) = &ui.said {
            return (said.clone(), self.colours.of(Color::Red).patch(bold()));
        }
        let mut parts = vec![format!("by {}{}", ui.sort.word(), if ui.reverse { ", reversed" } else { "" })];
        parts.push(if ui.paused { "PAUSED".into() } else { format!("every {} s", self.every) });
        if !ui.filter.is_empty() {
            parts.push(format!("filter {}", ui.filter));
        }
        parts.push("h keys  q end".into());
        (parts.join("  "), reversed())
    }
}

/// One whole line, as far as there is room.
fn put(buffer: &mut Buffer, y: u16, text: &str, style: Style) {
    let plain: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    buffer.set_stringn(0, y, plain, buffer.area.width.into(), style);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

#[cfg(test)]
mod tests;
