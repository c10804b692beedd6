//! The terminal: taken, and given back however the program ends.

use std::io::{self, ErrorKind, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen,
};

use crate::signals;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// This program has the terminal, until this is dropped.
pub struct Screen {
    terminal: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it is told.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be read from.
    pub fn take() -> io::Result<Screen> {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |why| {
            give_back();
            tell(why);
        }));
        take()?;
        let terminal = ratatui::Terminal::new(CrosstermBackend::new(io::stdout()));
        terminal.map(|terminal| Screen { terminal }).inspect_err(|_| give_back())
    }

    pub fn draw(&mut self, picture: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| picture(frame.buffer_mut())).map(|_| ())
    }

    /// Draws everything anew the next time.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Gives the terminal to the shell, stops, and takes it again when the shell says so.
    pub fn stop(&mut self) -> io::Result<()> {
        give_back();
        signals::stop();
        self.again()
    }

    /// After somebody else may have had the terminal.
    pub fn again(&mut self) -> io::Result<()> {
        // The library sets a mode only if it has not set it before, and the shell has set another one since. Where the
        // terminal cannot be had, taking it says so.
        let _ = whole(disable_raw_mode);
        take()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    whole(enable_raw_mode)?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// The call, again if a signal interrupts it, as SIGCONT does where the shell gives the terminal to a program that waits for it.
fn whole(call: fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = whole(disable_raw_mode);
    }
}
