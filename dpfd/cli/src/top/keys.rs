//! What keys do: a state machine that knows no terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rows::{Kind, Row, Sort};

/// What is to be done that the state alone cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Do {
    Nothing,
    Quit,
    /// As a shell's ^Z.
    Stop,
    Redraw,
    /// Look at once.
    Look,
    /// This line is the filter from now on; an empty one: the filter of the command line.
    Filter(String),
    /// Follow the channel that has this end, or the chosen one no more.
    Follow(Option<String>),
    /// More or less time from look to look.
    Slower,
    Faster,
}

/// What tells a line from others of its kind.
type Id = (Kind, Option<String>, Option<String>, Option<u32>);

/// What is shown, and how.
#[derive(Debug)]
pub struct Ui {
    pub view: Kind,
    pub sort: Sort,
    pub reverse: bool,
    pub paused: bool,
    pub help: bool,
    /// A channel is followed.
    pub follows: bool,
    /// The line that is being typed.
    pub typed: Option<String>,
    /// The one that is the filter.
    pub filter: String,
    /// What there is to say about the last key.
    pub said: Option<String>,
    /// The chosen line, and the first one on the screen.
    pub chosen: usize,
    pub first: usize,
    chosen_id: Option<Id>,
    page: usize,
}

fn id(row: &Row) -> Id {
    (row.kind, row.from.clone(), row.to.clone(), row.pid)
}

impl Ui {
    pub fn new(view: Kind, sort: Sort, reverse: bool) -> Ui {
        Ui {
            view,
            sort,
            reverse,
            paused: false,
            help: false,
            follows: false,
            typed: None,
            filter: String::new(),
            said: None,
            chosen: 0,
            first: 0,
            chosen_id: None,
            page: 1,
        }
    }

    /// The lines of the view are these now, and `room` of them are on the screen. Whoever was chosen is still chosen.
    pub fn settle(&mut self, rows: &[&Row], room: usize) {
        self.page = room.max(1);
        if let Some(wanted) = &self.chosen_id {
            self.chosen = rows.iter().position(|row| id(row) == *wanted).unwrap_or(self.chosen);
        }
        self.chosen = self.chosen.min(rows.len().saturating_sub(1));
        self.first = self.first.clamp((self.chosen + 1).saturating_sub(self.page), self.chosen);
        self.first = self.first.min(rows.len().saturating_sub(self.page));
    }

    /// A key, with the lines of the view.
    pub fn key(&mut self, key: KeyEvent, rows: &[&Row]) -> Do {
        self.said = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Do::Quit,
                KeyCode::Char('z') => Do::Stop,
                KeyCode::Char('l') => Do::Redraw,
                KeyCode::Char('u') if self.typed.is_some() => {
                    self.typed = Some(String::new());
                    Do::Nothing
                }
                _ => Do::Nothing,
            };
        }
        if let Some(line) = self.typed.take() {
            return self.type_on(line, key.code);
        }
        if self.help {
            self.help = false;
            return Do::Nothing;
        }
        self.command(key.code, rows)
    }

    fn type_on(&mut self, mut line: String, code: KeyCode) -> Do {
        match code {
            KeyCode::Enter => return Do::Filter(line),
            KeyCode::Esc => return Do::Nothing,
            KeyCode::Backspace => {
                line.pop();
            }
            // Longer than anybody types.
            KeyCode::Char(c) if line.len() < 200 => line.push(c),
            _ => {}
        }
        self.typed = Some(line);
        Do::Nothing
    }

    fn command(&mut self, code: KeyCode, rows: &[&Row]) -> Do {
        match code {
            KeyCode::Char('q') => return Do::Quit,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('p') => {
                self.paused = !self.paused;
                return if self.paused { Do::Nothing } else { Do::Look };
            }
            KeyCode::Char(' ') => return Do::Look,
            KeyCode::Char('/') => self.typed = Some(self.filter.clone()),
            KeyCode::Char('<') => self.sort = self.sort.next(true),
            KeyCode::Char('>') => self.sort = self.sort.next(false),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('+') => return Do::Slower,
            KeyCode::Char('-') => return Do::Faster,
            KeyCode::Char(digit @ '1'..='6') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.view as usize + 1),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.view as usize + Kind::ALL.len() - 1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.chosen.saturating_sub(1), rows),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.chosen + 1, rows),
            KeyCode::PageUp => self.choose(self.chosen.saturating_sub(self.page), rows),
            KeyCode::PageDown => self.choose(self.chosen + self.page, rows),
            KeyCode::Home => self.choose(0, rows),
            KeyCode::End => self.choose(usize::MAX, rows),
            KeyCode::Enter | KeyCode::Char('l') => return self.follow(rows),
            KeyCode::Esc if self.follows => return Do::Follow(None),
            KeyCode::Esc if !self.filter.is_empty() => return Do::Filter(String::new()),
            _ => self.said = Some("h lists the keys".into()),
        }
        Do::Nothing
    }

    fn turn_to(&mut self, view: usize) {
        self.view = Kind::ALL[view % Kind::ALL.len()];
        (self.chosen, self.first, self.chosen_id) = (0, 0, None);
    }

    fn choose(&mut self, at: usize, rows: &[&Row]) {
        self.chosen = at.min(rows.len().saturating_sub(1));
        self.chosen_id = rows.get(self.chosen).map(|row| id(row));
    }

    fn follow(&mut self, rows: &[&Row]) -> Do {
        if self.follows {
            return Do::Follow(None);
        }
        match rows.get(self.chosen) {
            Some(row) if row.kind == Kind::Connection && row.state == "channel" => {
                Do::Follow(row.from.clone())
            }
            _ => {
                self.said =
                    Some("only a channel can be followed: 2 shows connections, arrows choose one".into());
                Do::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests;
