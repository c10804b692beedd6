//! Start: settings are read when the library is loaded, because daemons clear their environment and change
//! user later. Cheap and silent: this runs in every child process.

use core::sync::atomic::Ordering;

use dp_rules::config::{self, environment};

use crate::{fdtable, inside, life, lost, rules, state};

extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

#[ctor::ctor(unsafe)]
fn start() {
    // A panic here must not take the program down: it then runs without us.
    let _ = std::panic::catch_unwind(prepare);
}

fn prepare() {
    if config::disabled() {
        return;
    }
    crate::real::warm();
    state::prepare_clock();
    inside::prepare();
    let name = std::env::args_os().next().unwrap_or_default();
    let name = std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str());
    let name = name.rsplit(|&b| b == b'/').next().unwrap_or_default();
    state::set_program(Box::leak(name.to_vec().into_boxed_slice()));
    // Rules that cannot be read leave everything on TCP; `dp run` says so aloud, we must not.
    let read = |list: &mut _| {
        let found = config::load(list).ok()?;
        Some(found.places.map(|places| (places, found.marks)))
    };
    if !rules::begin(read) {
        return;
    }
    // Numbers that cannot be, too, are `dp run`'s to tell of.
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
        return;
    }
    let _ = (inside::ENDS.set(life::end), state::MAKES_ROOM.set(|family| life::dead::clear(family, true)));
    // SAFETY: plain functions that stay loaded: the library is never unloaded while hooks point into it.
    unsafe { pthread_atfork(Some(life::prepare_fork_c), None, Some(life::child_of_fork_c)) };
    state::ON.store(true, Ordering::Release);
}
