//! The endpoints of the kernel driver that there are, for `dp ls`: whoever may look into a process finds them among
//! its descriptors, and the kernel says in /proc/PID/fdinfo what they are.

use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::addr::{Addr, Dpid};

/// An endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub dpid: Dpid,
    /// Tells it from all others.
    pub serial: u64,
    /// Of the processes that hold it, the one with the lowest number.
    pub pid: i32,
    /// The process that opened it.
    pub uid: u32,
    /// Where it sends by default.
    pub target: Option<Addr>,
    /// Messages put into their receivers' pools, and their bytes.
    pub sent: (u64, u64),
    /// Messages read or released, and their bytes.
    pub received: (u64, u64),
    /// Bytes of its pool, and those that are free.
    pub pool: (usize, usize),
    /// Whether messages are read in place.
    pub in_place: bool,
}

/// All that this user may see in this network namespace, by number.
pub fn list() -> Vec<Seen> {
    let Ok(device) = fs::metadata(dp_abi::DEVICE) else { return Vec::new() };
    if !device.file_type().is_char_device() {
        return Vec::new();
    }
    let namespace = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = namespace(Path::new("/proc/self"));
    let mut found = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // What cannot be told belongs to somebody else, and so do its descriptors.
        if namespace(&process.path()) == own {
            look_into(&process.path(), pid, device.rdev(), &mut found);
        }
    }
    let mut all: Vec<Seen> = found.into_values().collect();
    all.sort_by_key(|seen| seen.dpid);
    all
}

fn look_into(process: &Path, pid: i32, device: u64, found: &mut BTreeMap<u64, Seen>) {
    for fd in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
        // The file behind the link, whatever its name is where the process lives.
        let is_ours = |m: fs::Metadata| m.file_type().is_char_device() && m.rdev() == device;
        if !fs::metadata(fd.path()).is_ok_and(is_ours) {
            continue;
        }
        let Ok(text) = fs::read_to_string(process.join("fdinfo").join(fd.file_name())) else { continue };
        let Some(seen) = Seen::parse(&text, pid) else { continue };
        match found.entry(seen.serial) {
            Entry::Vacant(place) => {
                place.insert(seen);
            }
            Entry::Occupied(mut place) => place.get_mut().pid = pid.min(place.get().pid),
        }
    }
}

impl Seen {
    /// None: a file of the device that is no endpoint yet.
    fn parse(text: &str, pid: i32) -> Option<Seen> {
        let mut seen = Seen { pid, ..Seen::default() };
        for (key, value) in text.lines().filter_map(|line| line.split_once(":\t")) {
            let numbers: Vec<u64> = value.split(' ').filter_map(|n| n.parse().ok()).collect();
            match (key, &numbers[..]) {
                ("dpid", &[dpid]) => seen.dpid = dpid as Dpid,
                ("serial", &[serial]) => seen.serial = serial,
                ("uid", &[uid]) => seen.uid = uid as u32,
                // No endpoint is 0.
                ("target", _) => seen.target = value.parse().ok(),
                ("sent", &[n, bytes]) => seen.sent = (n, bytes),
                ("received", &[n, bytes]) => seen.received = (n, bytes),
                ("pool", &[size, left]) => seen.pool = (size as usize, left as usize),
                ("in-place", &[yes]) => seen.in_place = yes != 0,
                _ => {}
            }
        }
        (seen.dpid != 0).then_some(seen)
    }
}

#[cfg(test)]
mod tests;
