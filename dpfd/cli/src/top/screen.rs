//! `dp top` on a terminal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::draw::{Colours, Picture};
use super::keys::{Do, Ui};
use super::looker::Looker;
use super::rows::{Kind, Row, Sort};
use super::terminal::Screen;
use super::{Args, Eye, Look};
use crate::ls::filter::Filter;
use crate::signals;

/// How long a signal may wait for its answer, and a look that is under way.
const GLANCE: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_millis(20);
/// The second look comes early, since the first one tells no rates.
const EARLY: Duration = Duration::from_millis(500);
/// Seconds from look to look, for + and -.
const INTERVALS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

pub fn run(args: Args) -> ExitCode {
    if !io::stdout().is_terminal() {
        eprintln!("dp top: standard output is no terminal; --batch prints text");
        return ExitCode::from(2);
    }
    signals::watch();
    signals::watch_stops();
    let mut screen = match Screen::take() {
        Ok(screen) => screen,
        Err(error) => {
            eprintln!("dp top: the terminal: {error}; --batch needs none");
            return ExitCode::FAILURE;
        }
    };
    let ended = Top::begin(args).and_then(|mut top| top.go_on(&mut screen));
    drop(screen);
    match ended {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(signal)) => signals::die(signal),
        Err(why) => {
            eprintln!("dp top: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for a key, a signal, or so long. Whether the terminal is gone: crossterm would read its end for ever.
/// One that is gone is none any more, so whether it was one is asked at the start: else keys come from another descriptor.
fn is_gone(was_terminal: bool, wait: Duration) -> bool {
    let input = io::stdin();
    if !was_terminal {
        std::thread::sleep(wait.min(SOON));
        return false;
    }
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
    let ends = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    fds[0].revents().is_some_and(|seen| seen.intersects(ends))
}

struct Top {
    looker: Looker,
    ui: Ui,
    look: Look,
    rows: Vec<Row>,
    interval: Duration,
    next: Instant,
    /// Looks that came.
    looks: u64,
    /// What to begin with; none: the first kind that there is.
    view: Option<Kind>,
    /// Look, though it is paused.
    once: bool,
    /// That of the command line, and that which holds.
    first_filter: Filter,
    filter: Filter,
    /// By what the lines are sorted now.
    sorted: (Sort, bool),
    colours: Colours,
}

impl Top {
    fn begin(args: Args) -> Result<Top, String> {
        let mut ui = Ui::new(args.view.unwrap_or(Kind::Program), args.sort, args.reverse);
        ui.follows = args.latency.is_some();
        ui.said = Some("looking".into());
        Ok(Top {
            looker: Looker::start(Eye::new(args.latency))?,
            ui,
            look: Look::default(),
            rows: Vec::new(),
            interval: args.interval,
            next: Instant::now(),
            looks: 0,
            view: args.view,
            once: false,
            first_filter: args.filter.clone(),
            filter: args.filter,
            sorted: (args.sort, args.reverse),
            colours: Colours::of_environment(),
        })
    }

    /// Until a key, or a signal, ends it.
    fn go_on(&mut self, screen: &mut Screen) -> Result<Option<Signal>, String> {
        let terminal = |error: io::Error| format!("the terminal: {error}");
        let was_terminal = io::stdin().is_terminal();
        loop {
            let every = self.interval.as_secs_f64();
            let (ui, look, rows) = (&mut self.ui, &self.look, &self.rows[..]);
            let picture = Picture { ui, look, rows, every, colours: self.colours };
            screen.draw(|buffer| picture.draw(buffer)).map_err(terminal)?;
            loop {
                if let Some(signal) = signals::caught() {
                    return Ok(Some(signal));
                }
                if let Some(signal) = signals::stops() {
                    let stops = signal == Signal::SIGTSTP;
                    if stops { screen.stop() } else { screen.again() }.map_err(terminal)?;
                    break;
                }
                if self.takes_a_look()? {
                    break;
                }
                if is_gone(was_terminal, self.wait()) {
                    return Ok(Some(signals::caught().unwrap_or(Signal::SIGHUP)));
                }
                if event::poll(Duration::ZERO).map_err(terminal)? {
                    match self.event(event::read().map_err(terminal)?) {
                        Do::Quit => return Ok(None),
                        Do::Stop => screen.stop().map_err(terminal)?,
                        Do::Redraw => screen.clear().map_err(terminal)?,
                        _ => {}
                    }
                    break;
                }
            }
        }
    }

    /// How long to wait for a key.
    fn wait(&self) -> Duration {
        match () {
            () if self.looker.is_under_way() => SOON,
            () if self.ui.paused => GLANCE,
            () => self.next.saturating_duration_since(Instant::now()).min(GLANCE),
        }
    }

    /// Asks for a look when it is time. Whether one came.
    fn takes_a_look(&mut self) -> Result<bool, String> {
        if Instant::now() >= self.next && (!self.ui.paused || self.once) {
            self.looker.ask();
        }
        let Some(look) = self.looker.look() else { return Ok(false) };
        if self.ui.paused && !self.once {
            return Ok(false);
        }
        self.look = look?;
        self.once = false;
        self.looks += 1;
        self.next = Instant::now() + if self.looks == 1 { EARLY.min(self.interval) } else { self.interval };
        self.sort();
        if self.looks == 1 {
            self.ui.said = None;
            if self.view.is_none() {
                self.ui.view = self.rows.first().map_or(Kind::Program, |row| row.kind);
            }
        }
        Ok(true)
    }

    fn sort(&mut self) {
        self.rows = self.look.rows(&self.filter, self.ui.sort, self.ui.reverse);
        self.sorted = (self.ui.sort, self.ui.reverse);
    }

    /// What happened at the terminal; what this cannot do itself comes back.
    fn event(&mut self, event: Event) -> Do {
        let Event::Key(key) = event else { return Do::Nothing };
        if key.kind == KeyEventKind::Release {
            return Do::Nothing;
        }
        let of_view: Vec<&Row> = self.rows.iter().filter(|row| row.kind == self.ui.view).collect();
        match self.ui.key(key, &of_view) {
            Do::Look => (self.next, self.once) = (Instant::now(), true),
            Do::Filter(line) => self.filter_by(&line),
            Do::Follow(end) => self.follow(end),
            Do::Slower => self.change_interval(false),
            Do::Faster => self.change_interval(true),
            other @ (Do::Quit | Do::Stop | Do::Redraw) => return other,
            Do::Nothing => {}
        }
        if self.sorted != (self.ui.sort, self.ui.reverse) {
            self.sort();
        }
        Do::Nothing
    }

    fn filter_by(&mut self, line: &str) {
        let line = line.trim();
        let filter = if line.is_empty() { Ok(self.first_filter.clone()) } else { Filter::typed(line) };
        match filter {
            Ok(filter) => {
                self.filter = filter;
                self.ui.filter = line.to_string();
                self.sort();
            }
            Err(why) => self.ui.said = Some(why),
        }
    }

    fn follow(&mut self, end: Option<String>) {
        let end = end.and_then(|end| end.parse().ok());
        self.ui.follows = end.is_some();
        self.looker.choose(end);
        // The next look begins it.
        self.next = Instant::now();
        if end.is_some() && self.ui.paused {
            self.ui.said = Some("p goes on; nothing is learned while it is paused".into());
        }
    }

    fn change_interval(&mut self, faster: bool) {
        let now = self.interval.as_secs_f64();
        let found = if faster {
            INTERVALS.iter().rfind(|&&seconds| seconds < now)
        } else {
            INTERVALS.iter().find(|&&seconds| seconds > now)
        };
        if let Some(&seconds) = found {
            self.interval = Duration::from_secs_f64(seconds);
            self.next = self.next.min(Instant::now() + self.interval);
        }
    }
}
