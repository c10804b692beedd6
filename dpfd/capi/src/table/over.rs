//! Endpoints that are over. The service tells of the library's own. Of the kernel driver's nobody does: one whose pool
//! is mapped can be seen to be closed; of the others the process's descriptors are looked through, now and then.

use std::collections::HashSet;
use std::ffi::c_int;
use std::fs;
use std::ptr;
use std::sync::atomic::Ordering::*;

use dpfd::driver::Driver;

use super::key::{key, Key};
use super::slots::slot;
use super::{list, Found, List, Shell};

/// With how many endpoints it begins to be looked for those that are over.
const MANY: usize = 64;

/// The service: an endpoint is over.
pub fn ended(serial: u32) {
    let mut list = list();
    let Some(shell) = list.by_serial.remove(&serial) else { return };
    let over = take_out(&mut list, shell);
    drop(list);
    reclaim(over);
}

/// `found` was behind a number that is closed now.
pub fn closed(found: Found) {
    let Found::Own(own) = found else { return };
    if own.driver() == Driver::Kernel && own.is_closed() {
        let over = take_out(&mut list(), own.shell);
        drop(own);
        reclaim(over);
    }
}

/// Before an endpoint of the kernel driver is entered under `fd`: whatever had that number has it no longer.
pub fn make_room(fd: c_int) {
    let mut over = Vec::new();
    let mut list = list();
    // SAFETY: null, or a shell, and these live for ever.
    let stale = slot(fd, false).and_then(|slot| unsafe { slot.load(Acquire).as_ref() });
    if let Some(shell) = stale {
        shell.clear_slot();
        // A child of a fork finds its parent's here: they are not asked, somebody may have held their locks.
        if is_listed(&list, shell) && shell.is_closed(&list) {
            over.extend(take_out(&mut list, shell));
        }
    }
    if list.by_key.len() >= list.next_sweep.max(MANY) {
        let open = open_ones();
        let gone = |key: &Key| matches!(key, Key::Device(serial) if open.as_ref().is_some_and(|o| !o.contains(serial)));
        let shells: Vec<_> =
            list.by_key.iter().filter(|(key, _)| gone(key)).map(|(_, shell)| *shell).collect();
        over.extend(shells.into_iter().filter_map(|shell| take_out(&mut list, shell)));
        list.next_sweep = list.by_key.len() * 2;
    }
    drop(list);
    reclaim(over);
}

/// The serial numbers of the kernel driver's endpoints that this process holds; none: that cannot be told.
fn open_ones() -> Option<HashSet<u64>> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let all = fs::read_dir("/proc/self/fd").ok()?.flatten().filter_map(number);
    Some(
        all.filter_map(|fd| match key(fd) {
            Ok(Key::Device(serial)) => Some(serial),
            _ => None,
        })
        .collect(),
    )
}

fn is_listed(list: &List, shell: &Shell) -> bool {
    list.by_key.get(&shell.name(list).1).is_some_and(|listed| ptr::eq(*listed, shell))
}

/// Takes a shell out of the list, and its number out of the table, once.
fn take_out(list: &mut List, shell: &'static Shell) -> Option<&'static Shell> {
    if !is_listed(list, shell) {
        return None;
    }
    list.by_key.remove(&shell.name(list).1);
    shell.clear_slot();
    shell.leaving.store(true, SeqCst);
    Some(shell)
}

/// Without the list, which it takes.
fn reclaim(over: impl IntoIterator<Item = &'static Shell>) {
    over.into_iter().for_each(Shell::reclaim);
}
