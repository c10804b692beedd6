//! In a terminal of tmux, with keys and signals.

use nix::sys::signal::{kill, Signal};

use crate::kit::until;
use crate::tmux::Tmux;
use crate::{folder, Traffic};

fn dp_top(more: &str) -> String {
    format!("echo before; $DP top -d 0.3 --pid {} {more}; echo ended $?", std::process::id())
}

/// What is there when the program gave the terminal back.
fn given_back(screen: &str, status: &str) -> bool {
    screen.contains("before\n")
        && screen.contains(&format!("ended {status}\n"))
        && !screen.contains("dp top  ")
}

/// The shell itself says so: lines are edited, and letters are seen.
fn is_sane(tmux: &Tmux) {
    tmux.line("clear; stty -a");
    tmux.until("what stty says", |screen| {
        let words: Vec<_> = screen.split_whitespace().collect();
        ["isig", "icanon", "echo"].iter().all(|word| words.contains(word))
    });
}

/// The shell has the terminal again: what is typed before may be thrown away with what the program left unread.
fn is_prompted(screen: &str) -> bool {
    screen.trim_end().ends_with("\n$")
}

#[test]
fn keys_choose_what_is_shown_and_the_terminal_is_given_back() {
    let traffic = Traffic::start();
    let Some(tmux) = Tmux::start("keys", (80, 24), folder(), true) else { return };
    tmux.line(&dp_top(""));
    let moves = |screen: &str| {
        let lines = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let of = |line: &Vec<&str>| line.first() == Some(&&*traffic.to.to_string());
        lines
            .filter(of)
            .any(|line| line.get(6).is_some_and(|rate| rate.parse().is_ok_and(|rate: f64| rate > 0.0)))
    };
    // Endpoints are there, so it begins with them.
    let screen = tmux.until("rates of endpoints", moves);
    assert!(screen.starts_with("dp top  ") && screen.contains(" 3 Endpoints "), "{screen}");
    assert!(
        screen.lines().all(|line| line.chars().count() <= 80) && screen.lines().count() == 24,
        "{screen}"
    );
    assert!(tmux.has_colours());

    tmux.keys(&["4"]);
    let edge = format!("{}  {}  edge", traffic.from, traffic.to);
    let screen = tmux.until("edges", |screen| screen.contains(&edge));
    assert!(screen.contains("FROM") && !screen.contains("DPID"), "{screen}");
    tmux.keys(&[">"]);
    tmux.until("another order", |screen| screen.contains("by tx "));
    tmux.keys(&["/"]);
    tmux.text("nobody*");
    tmux.until("a filter that is typed", |screen| screen.contains("filter: nobody*_"));
    tmux.keys(&["Enter"]);
    tmux.until("a filter", |screen| {
        screen.contains("filter nobody*") && screen.contains("nothing of this kind")
    });
    tmux.keys(&["/", "C-u"]);
    tmux.line("--state live");
    tmux.until("what is wrong with it", |screen| screen.contains("invalid value 'live'"));
    tmux.keys(&["Escape"]);
    tmux.until("no filter", |screen| screen.contains(&edge));
    tmux.keys(&["p"]);
    let screen = tmux.until("a pause", |screen| screen.contains("PAUSED"));
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(tmux.screen(), screen, "nothing moves");
    tmux.keys(&["p", "h"]);
    tmux.until("help", |screen| screen.contains("sort by another value"));
    tmux.keys(&["x", "q"]);
    tmux.until("its end", |screen| given_back(screen, "0"));
    is_sane(&tmux);
}

#[test]
fn a_terminal_of_any_size_is_used() {
    let traffic = Traffic::start();
    let Some(tmux) = Tmux::start("size", (60, 10), folder(), false) else { return };
    tmux.line(&dp_top("--view endpoint"));
    let number = traffic.to.to_string();
    tmux.until("endpoints", |screen| screen.contains(&number));
    assert!(!tmux.has_colours(), "NO_COLOR is set");
    for size in [(24, 8), (15, 3), (200, 50), (80, 24)] {
        tmux.resize(size);
        let fits = |screen: &str| {
            let lines = screen.trim_end_matches('\n').lines();
            lines.clone().all(|line| line.chars().count() <= size.0.into())
                && if size.0 < 20 {
                    screen.starts_with("too small")
                } else {
                    screen.contains(&number) && lines.count() == usize::from(size.1)
                }
        };
        tmux.until(&format!("{size:?}"), fits);
    }
    tmux.keys(&["C-c"]);
    // What tmux makes of the first screen when the other one was another size meanwhile, is not ours.
    tmux.until("its end", |screen| screen.contains("ended 0\n"));
    is_sane(&tmux);
}

#[test]
fn signals_find_the_terminal_given_back() {
    let _traffic = Traffic::start();
    let Some(tmux) = Tmux::start("signals", (80, 24), folder(), true) else { return };
    let shown = |screen: &str| screen.starts_with("dp top  ") && screen.contains("h keys");
    for (signal, status) in [(Signal::SIGTERM, "143"), (Signal::SIGHUP, "129")] {
        tmux.line("clear");
        tmux.line(&dp_top(""));
        tmux.until("the picture", shown);
        kill(tmux.child(), signal).unwrap();
        tmux.until(signal.as_str(), |screen| given_back(screen, status));
    }
    is_sane(&tmux);
    tmux.line("clear");
    tmux.line(&format!("echo before; $DP top -d 0.3 --pid {}", std::process::id()));
    tmux.until("the picture", shown);
    tmux.keys(&["C-z"]);
    tmux.until("a stop", |screen| screen.contains("before\n") && screen.contains("Stopped"));
    is_sane(&tmux);
    tmux.line("fg");
    tmux.until("the picture again", shown);
    tmux.line("q");
    tmux.until("its end", |screen| !shown(screen) && is_prompted(screen));
    is_sane(&tmux);
}

#[test]
fn a_stop_behind_its_back_and_the_background_are_survived() {
    let _traffic = Traffic::start();
    let Some(tmux) = Tmux::start("stops", (80, 24), folder(), true) else { return };
    let shown = |screen: &str| screen.starts_with("dp top  ") && screen.contains("h keys");
    tmux.line(&format!("$DP top -d 0.3 --pid {}", std::process::id()));
    tmux.until("the picture", shown);
    // It cannot give the terminal back, nor know that the shell sets another mode.
    kill(tmux.child(), Signal::SIGSTOP).unwrap();
    tmux.until("a stop", |screen| screen.contains("Stopped"));
    tmux.line("clear; fg");
    tmux.until("the picture again", shown);
    // A key without Enter.
    tmux.keys(&["h"]);
    tmux.until("help", |screen| screen.contains("sort by another value"));
    tmux.keys(&["x", "C-z"]);
    tmux.until("a stop", |screen| screen.contains("Stopped"));
    // It goes on without the terminal, and stops where it takes it, until the shell gives it.
    tmux.line("clear; bg; sleep 0.5; jobs");
    tmux.until("another stop", |screen| screen.contains("Stopped"));
    tmux.line("clear; fg");
    tmux.until("the picture again", shown);
    tmux.keys(&["h"]);
    tmux.until("help", |screen| screen.contains("sort by another value"));
    tmux.keys(&["x", "q"]);
    tmux.until("its end", |screen| !shown(screen) && is_prompted(screen));
    is_sane(&tmux);
}

#[test]
fn it_ends_with_its_terminal() {
    let _traffic = Traffic::start();
    let Some(tmux) = Tmux::start("gone", (80, 24), folder(), true) else { return };
    tmux.line(&dp_top(""));
    tmux.until("the picture", |screen| screen.starts_with("dp top  ") && screen.contains("h keys"));
    let child = tmux.child();
    drop(tmux);
    until("dp top ends", || kill(child, None).is_err());
}
