//! Libraries that a program loads past the shim.
//!
//! One that is loaded with RTLD_DEEPBIND looks for a name in itself and in what it needs before it looks where all others do, and
//! so finds libc's calls before our hooks: it would read doorbells as data. To take the flag from the program would have the
//! library find other functions of the program's, too. So it finds what it would, and then every word by which it, or what came
//! with it, would call a function of libc's that is replaced, is made our hook's ([`mended`]). A name that it defines for itself
//! stays its own.
//!
//! Where that cannot be, and where a library has a libc of its own (dlmopen), the process's channels leave before the library is
//! there, and it makes no more ([`cannot_be_mended`]).

use core::ffi::{c_int, c_void, CStr};
use core::sync::atomic::{AtomicUsize, Ordering};

use dp_channel::family::Reason;
use libc::{dl_phdr_info, size_t, Elf64_Phdr};

use crate::fdtable::{self, Entry};
use crate::real::{self, REPLACED};
use crate::{epoll, give, inside, log, state};

/// Somebody in this process sees no channels from now on.
#[cold]
pub fn cannot_be_mended() {
    log::told("alone", Reason::Plugin.text());
    state::end_channels(Reason::Plugin);
    fdtable::each(|fd, e| {
        if matches!(e, Entry::Conn(_)) {
            give::for_good(fd, Reason::Plugin);
        }
    });
    fdtable::each(|_, e| {
        if let Entry::Epoll(i) = e {
            epoll::give_away(i);
        }
    });
}

/// Whether dlopen(3) finds this file from here as it does from `caller`: it is a path, or the caller is the program itself, and says
/// no place to search that holds for its own calls only.
pub fn is_found_from_here(file: &CStr, caller: *const c_void) -> bool {
    let has = |byte| file.to_bytes().contains(&byte);
    if has(b'$') {
        return false;
    }
    has(b'/') || {
        let mut asked = Asked { caller: caller.addr(), same: false };
        // SAFETY: the callback gets back what outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(first_object), (&raw mut asked).cast()) };
        asked.same
    }
}

struct Asked {
    caller: usize,
    same: bool,
}

/// Looks at the program itself, which comes first.
unsafe extern "C" fn first_object(info: *mut dl_phdr_info, _: size_t, to: *mut c_void) -> c_int {
    // SAFETY: the caller's struct, and the loader's information.
    let (asked, object) = unsafe { (&mut *to.cast::<Asked>(), Object::of(info)) };
    const RUNPATH: usize = 29;
    asked.same = object.contains(asked.caller) && object.dynamic(RUNPATH).is_none();
    1
}

/// What `load` loads, if its result is not null, and all that came with it, calls our hooks. Only where there is one thread: others
/// could load something at the same time, whose words the loader has in hand.
pub fn mended(load: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let mut before = Vec::<usize>::new();
    // SAFETY: the callback gets back what outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut before).cast()) };
    let handle = load();
    if handle.is_null() {
        return handle;
    }
    if !inside::alone() {
        // What was loaded has started a thread, which may be looking for its calls.
        cannot_be_mended();
        return handle;
    }
    // SAFETY: C strings; plain data, filled by the call; the callbacks get back what outlives them. libc's own objects are there, and
    // stay.
    let mending = unsafe {
        let inside = libc::dlsym(libc::RTLD_NEXT, c"gnu_get_libc_version".as_ptr());
        let libc = base_of(inside).unwrap_or(0);
        let targets = Target::all(handle, libc);
        let mut mending = Mending { before, libc: libc..libc, targets, failed: libc == 0 };
        libc::dl_iterate_phdr(Some(measure), (&raw mut mending).cast());
        libc::dl_iterate_phdr(Some(mend), (&raw mut mending).cast());
        // What was not found here is nobody's failure.
        libc::dlerror();
        mending
    };
    if mending.failed {
        cannot_be_mended();
    }
    handle
}

/// Where the object lies that has `at`.
fn base_of(at: *mut c_void) -> Option<usize> {
    // SAFETY: plain data, filled by the call, which refuses what is no object's.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (!at.is_null() && libc::dladdr(at, &mut info) != 0).then_some(info.dli_fbase.addr())
    }
}

/// A function that is replaced, as it is known in this process.
struct Target {
    name: &'static CStr,
    hook: usize,
    /// The definition behind ours; 0: there is none.
    next: usize,
    /// Of a library of its own, wherever that lies.
    guest: bool,
    /// What was loaded finds a definition of its own, not libc's, nor what is behind ours.
    own: bool,
}

impl Target {
    /// What there is to look for, for a library with this handle, where libc lies at `libc`.
    fn all(handle: *mut c_void, libc: usize) -> Vec<Target> {
        let one = |replaced: &real::Replaced| {
            let hook = real::ours(replaced.name);
            // SAFETY: C strings; the handle is not given back before this is over.
            let (next, found) = unsafe {
                let name = replaced.name.as_ptr();
                (libc::dlsym(libc::RTLD_NEXT, name), libc::dlsym(handle, name))
            };
            let theirs = !found.is_null() && found != hook && found != next;
            (!hook.is_null()).then(|| Target {
                name: replaced.name,
                hook: hook.addr(),
                next: next.addr(),
                guest: replaced.guest,
                own: theirs && base_of(found) != Some(libc),
            })
        };
        REPLACED.iter().filter_map(one).collect()
    }

    /// What is to be done with a word that has `value`, which is not yet known to be its function where it is in what was loaded
    /// (`is_new`).
    fn fate(&self, value: usize, is_new: bool, libc: &core::ops::Range<usize>) -> Fate {
        let known = value == self.next || libc.contains(&value);
        match (self.guest, is_new) {
            _ if value == self.hook || value == 0 => Fate::Stays,
            (false, true) if !self.own => Fate::Ours,
            (false, false) if known => Fate::Ours,
            (false, _) => Fate::Stays,
            // The hook calls what is behind it: of two versions of a library each has its own users.
            (true, true) if !self.own || self.next == 0 => Fate::Ours,
            (true, false) if known || self.next == 0 => Fate::Ours,
            (true, _) => Fate::Fails,
        }
    }
}

/// What becomes of a word by which a library calls a function of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Ours,
    /// It would go past us.
    Fails,
}

struct Mending {
    /// Where the headers are of what was there before.
    before: Vec<usize>,
    libc: core::ops::Range<usize>,
    targets: Vec<Target>,
    failed: bool,
}

unsafe extern "C" fn note(info: *mut dl_phdr_info, _: size_t, to: *mut c_void) -> c_int {
    // SAFETY: the caller's list, and the loader's information.
    unsafe { (*to.cast::<Vec<usize>>()).push((*info).dlpi_phdr.addr()) };
    0
}

unsafe extern "C" fn measure(info: *mut dl_phdr_info, _: size_t, to: *mut c_void) -> c_int {
    // SAFETY: the caller's struct, and the loader's information.
    let (mending, object) = unsafe { (&mut *to.cast::<Mending>(), Object::of(info)) };
    if !object.contains(mending.libc.start) {
        return 0;
    }
    mending.libc.end = object.loaded().map(|part| part.end).max().unwrap_or(mending.libc.start);
    1
}

/// Asks the loader nothing: it has one of its locks.
unsafe extern "C" fn mend(info: *mut dl_phdr_info, _: size_t, to: *mut c_void) -> c_int {
    // SAFETY: the caller's struct, and the loader's information.
    let (mending, object) = unsafe { (&mut *to.cast::<Mending>(), Object::of(info)) };
    if !mending.before.contains(&object.headers.as_ptr().addr()) {
        object.mend(mending);
    }
    0
}

/// A loaded library, or the program. What is there the loader has read, too, and believed.
struct Object<'a> {
    base: usize,
    headers: &'a [Elf64_Phdr],
}

/// Of an entry by which the loader writes an address somewhere.
#[repr(C)]
struct Rela {
    offset: usize,
    kind: u32,
    symbol: u32,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    _info: [u8; 2],
    section: u16,
    _value: [u64; 2],
}

/// An address as it is, one in a table, and one in a table of functions that may be looked for when it is first called.
#[cfg(target_arch = "x86_64")]
const KINDS: [u32; 3] = [1, 6, 7];
#[cfg(not(target_arch = "x86_64"))]
const KINDS: [u32; 3] = [257, 1025, 1026];

impl Object<'_> {
    /// # Safety
    ///
    /// The loader's information, in the callback that was given it.
    unsafe fn of<'a>(info: *const dl_phdr_info) -> Object<'a> {
        // SAFETY: by the contract.
        let info = unsafe { &*info };
        let headers = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            // SAFETY: as many as it says.
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
        };
        Object { base: info.dlpi_addr as usize, headers }
    }

    fn parts(&self, kind: u32) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        let range = |h: &Elf64_Phdr| {
            let start = self.base.wrapping_add(h.p_vaddr as usize);
            start..start.wrapping_add(h.p_memsz as usize)
        };
        self.headers.iter().filter(move |h| h.p_type == kind).map(range)
    }

    fn loaded(&self) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        self.parts(libc::PT_LOAD)
    }

    fn contains(&self, at: usize) -> bool {
        self.loaded().any(|part| part.contains(&at))
    }

    /// A word among what is no data may be closed by now.
    fn may_be_written(&self, at: usize) -> bool {
        self.headers.iter().any(|h| {
            let start = self.base.wrapping_add(h.p_vaddr as usize);
            h.p_type == libc::PT_LOAD
                && h.p_flags & libc::PF_W != 0
                && (start..start.wrapping_add(h.p_memsz as usize)).contains(&at)
        })
    }

    /// What its dynamic section says under this number.
    fn dynamic(&self, tag: usize) -> Option<usize> {
        let mut at = self.parts(libc::PT_DYNAMIC).next()?.start as *const [usize; 2];
        loop {
            // SAFETY: the section ends with a zero.
            let [found, value] = unsafe { *at };
            match found {
                0 => return None,
                _ if found == tag => return Some(value),
                // SAFETY: not beyond that.
                _ => at = unsafe { at.add(1) },
            }
        }
    }

    /// The same for an address: the loader has made it one in this process, mostly.
    fn address(&self, tag: usize) -> Option<usize> {
        self.dynamic(tag).map(|at| if at < self.base { at.wrapping_add(self.base) } else { at })
    }

    /// The entries by which the loader has written addresses here.
    fn entries(&self) -> impl Iterator<Item = &Rela> {
        const RELA: (usize, usize) = (7, 8);
        const CALLS: (usize, usize) = (23, 2);
        [RELA, CALLS].into_iter().flat_map(|(table, size)| {
            let (at, size) = (self.address(table).unwrap_or(0), self.dynamic(size).unwrap_or(0));
            let n = if at == 0 { 0 } else { size / size_of::<Rela>() };
            if n == 0 {
                return [].iter();
            }
            // SAFETY: as many as it says.
            unsafe { core::slice::from_raw_parts(at as *const Rela, n) }.iter()
        })
    }

    fn mend(&self, mending: &mut Mending) {
        let (Some(names), Some(symbols)) = (self.address(5), self.address(6)) else { return };
        // Its own page size does not matter: what the loader has closed is closed by whole pages.
        let closed = self.parts(libc::PT_GNU_RELRO).next().map(|part| part.start & !4095..part.end & !4095);
        let mut opened = false;
        for entry in self.entries().filter(|e| KINDS.contains(&e.kind) && e.addend == 0) {
            // SAFETY: an index of its own.
            let symbol = unsafe { &*(symbols as *const Symbol).add(entry.symbol as usize) };
            // Its own definition stays its own.
            if symbol.section != 0 {
                continue;
            }
            // SAFETY: a string of its own.
            let name = unsafe { CStr::from_ptr((names + symbol.name as usize) as *const _) };
            let Some(target) = mending.targets.iter().find(|target| target.name == name) else { continue };
            let at = self.base.wrapping_add(entry.offset);
            // SAFETY: a word that the loader writes, and nobody else: there is one thread.
            let word = unsafe { AtomicUsize::from_ptr(at as *mut usize) };
            let value = word.load(Ordering::Relaxed);
            match target.fate(value, self.contains(value), &mending.libc) {
                Fate::Stays => continue,
                Fate::Fails => mending.failed = true,
                Fate::Ours if closed.as_ref().is_some_and(|closed| closed.contains(&at)) => {
                    if !opened {
                        opened = true;
                        mending.failed |= !protect(&closed, libc::PROT_READ | libc::PROT_WRITE);
                    }
                }
                Fate::Ours => mending.failed |= !self.may_be_written(at),
            }
            if !mending.failed {
                word.store(target.hook, Ordering::Relaxed);
            }
        }
        if opened {
            protect(&closed, libc::PROT_READ);
        }
    }
}

fn protect(part: &Option<core::ops::Range<usize>>, how: c_int) -> bool {
    let Some(part) = part else { return true };
    // SAFETY: pages of data of a loaded library, which the loader has closed for writing.
    unsafe { libc::mprotect(part.start as *mut c_void, part.len(), how) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_becomes_ours_where_it_would_call_what_is_behind_us() {
        let libc = 1000..2000;
        let target = |next, guest, own| Target { name: c"read", hook: 50, next, guest, own };
        let of_libc = target(1100, false, false);
        for (value, is_new, fate) in [
            (50, false, Fate::Stays),
            (0, false, Fate::Stays),
            (1100, false, Fate::Ours),
            (1200, false, Fate::Ours),
            (3000, false, Fate::Stays),
            (60, true, Fate::Ours),
        ] {
            assert_eq!(of_libc.fate(value, is_new, &libc), fate, "{value}");
        }
        assert_eq!(target(1100, false, true).fate(60, true, &libc), Fate::Stays, "its own function");
        // Another library's, of which there may be two.
        for (next, own, value, is_new, fate) in [
            (0, true, 3000, false, Fate::Ours),
            (0, true, 60, true, Fate::Ours),
            (4000, false, 4000, false, Fate::Ours),
            (4000, false, 60, true, Fate::Ours),
            (4000, true, 3000, false, Fate::Fails),
            (4000, true, 60, true, Fate::Fails),
        ] {
            assert_eq!(target(next, true, own).fate(value, is_new, &libc), fate, "{next} {value}");
        }
    }
}
