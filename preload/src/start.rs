//! Start: settings are read when the library is loaded, because daemons clear their environment and change
//! user later. Cheap and silent: this runs in every child process.

use core::sync::atomic::Ordering;

use dp_rules::config::log::Level;
use dp_rules::config::{self, environment, slips};

use crate::tx::owed;
use crate::{epoll, fdtable, groups, inside, life, log, lost, rules, state, wait};

#[ctor::ctor(unsafe)]
fn start() {
    // A panic here must not take the program down: it then runs without us.
    let _ = std::panic::catch_unwind(prepare);
}

fn prepare() {
    let (disabled, asked) = (config::disabled(), config::log::told());
    if disabled && asked.is_none() {
        return;
    }
    state::prepare_clock();
    name_program();
    if let Some(asked) = asked {
        log::begin(&asked);
    }
    if disabled {
        return leave_alone("DP_DISABLE is set");
    }
    // Parts of an arena are mapped and unmapped by pages of 4 KiB: with others they would not lie where they should.
    if !dp_edge::sys::process::has_usual_pages() {
        return leave_alone("this kernel's pages are not of 4 KiB");
    }
    crate::real::warm();
    inside::prepare();
    if log::wants(Level::Warning) {
        tell_of_mistakes();
    }
    let mut from = String::new();
    // Rules that cannot be read leave everything on TCP; `dp run` says so aloud, and so does the log; we must not.
    let read = |list: &mut _| match config::load(list) {
        Ok(found) => {
            if log::wants(Level::Info) {
                from = found.source.to_string();
            }
            Some(found.places.map(|places| (places, found.marks)))
        }
        Err(error) => {
            if log::wants(Level::Warning) {
                log::warning(&error.to_string());
            }
            None
        }
    };
    if !rules::begin(read) {
        return leave_alone("it has no rules to go by");
    }
    if let Some(n) = environment::AFTER.told() {
        state::AFTER.store(n as u32, Ordering::Relaxed);
        state::LEARNS.store(false, Ordering::Relaxed);
    }
    for (number, lines) in
        [(&environment::RING, &state::RING_LINES), (&environment::RING_LONG, &state::SPARE_LINES)]
    {
        if let Some(n) = number.told() {
            lines.store(state::lines(n as u32), Ordering::Relaxed);
        }
    }
    if let Some(n) = environment::SPIN.told() {
        state::SPIN.store(n as u32, Ordering::Relaxed);
    }
    if let Some(path) = std::env::var_os("DP_LOST").filter(|path| !path.is_empty()) {
        let path = std::os::unix::ffi::OsStringExt::into_vec(path);
        let _ = std::ffi::CString::new(path).map(lost::set_file);
    }
    if let Some(n) = environment::CHAOS.told() {
        state::CHAOS.store(n as u32, Ordering::Relaxed);
    }
    state::CPUS.store(dp_edge::sys::process::cpus() as u32, Ordering::Relaxed);
    if !state::prepare_self() || !fdtable::prepare() {
        return leave_alone("there is no memory for the shim's tables");
    }
    log::keep();
    let _ = (inside::ENDS.set(life::end), state::MAKES_ROOM.set(|family| life::dead::clear(family, true)));
    let _ = groups::WAKES.set(epoll::bell_was_taken);
    let _ = owed::WAKES.set(wait::wake_sleepers);
    life::register();
    state::ON.store(true, Ordering::Release);
    log::started(&from);
}

fn name_program() {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str());
    let name = name.rsplit(|&b| b == b'/').next().unwrap_or_default();
    state::set_program(Box::leak(name.to_vec().into_boxed_slice()));
}

fn leave_alone(why: &str) {
    log::left_alone(why);
    log::end();
}

/// Variables that are not taken as they stand. Without a log nobody here says so: standard error is the program's, and whoever
/// started it may read each word of it. `dp run`, `dp rules check` and `dp doctor` do.
fn tell_of_mistakes() {
    for wrong in environment::OF_SHIM.into_iter().filter_map(|number| number.check().err()) {
        log::warning(&wrong.to_string());
    }
    for (name, _) in std::env::vars_os() {
        if let Some(meant) = slips::meant(&name) {
            log::warning(&slips::told(&name, meant));
        }
    }
}
