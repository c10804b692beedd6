//! A look takes its time where there are many sockets, or a process does not answer: it is done beside the thread that
//! hears the keys.

use std::net::SocketAddr;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;

use super::{Eye, Look};

/// What is asked of the thread that looks.
enum Ask {
    Look,
    /// As [`Eye::choose`].
    Choose(Option<SocketAddr>),
}

/// Whoever asks it; one look at a time.
pub struct Looker {
    asks: Sender<Ask>,
    looks: Receiver<Result<Look, String>>,
    under_way: bool,
}

impl Looker {
    /// # Errors
    ///
    /// There can be no thread; in words.
    pub fn start(mut eye: Eye) -> Result<Looker, String> {
        let (asks, asked) = channel();
        let (tell, looks) = channel();
        let look = move || {
            for ask in asked {
                let told = match ask {
                    Ask::Look => tell.send(eye.look()),
                    Ask::Choose(end) => {
                        eye.choose(end);
                        Ok(())
                    }
                };
                if told.is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("dp-top-look".into()).spawn(look);
        thread.map(|_| Looker { asks, looks, under_way: false }).map_err(|error| format!("a thread: {error}"))
    }

    /// Asks for a look, unless one is under way.
    pub fn ask(&mut self) {
        if !self.under_way {
            // One that has panicked is noticed by who waits for its look.
            let _ = self.asks.send(Ask::Look);
            self.under_way = true;
        }
    }

    pub fn choose(&self, end: Option<SocketAddr>) {
        let _ = self.asks.send(Ask::Choose(end));
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// The look that was asked for, once it is there.
    pub fn look(&mut self) -> Option<Result<Look, String>> {
        use std::sync::mpsc::TryRecvError;
        let look = match self.looks.try_recv() {
            Ok(look) => look,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the thread that looks has ended".into()),
        };
        self.under_way = false;
        Some(look)
    }
}
