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

mod object;

use core::ffi::{c_int, c_void, CStr};

use dp_channel::family::Reason;
use libc::{dl_phdr_info, size_t};
use object::Object;

use crate::fdtable::{self, Entry};
use crate::real::{self, object_of, REPLACED};
use crate::{epoll, give, inside, log};

/// Somebody in this process sees no channels from now on.
#[cold]
pub fn cannot_be_mended() {
    log::told("alone", Reason::Plugin.text());
    give::give_up_all(Reason::Plugin);
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
        let libc = object_of(inside).unwrap_or(0);
        let targets = Target::all(handle, libc);
        let mut mending =
            Mending { before, libc: libc..libc, failed: libc == 0 || targets.is_empty(), targets };
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
        let own = real::own_library();
        if own.is_null() {
            return Vec::new();
        }
        let one = |replaced: &real::Replaced| {
            // SAFETY: C strings; neither handle is given back before this is over.
            let [hook, next, found] = [own, libc::RTLD_NEXT, handle]
                .map(|handle| unsafe { libc::dlsym(handle, replaced.name.as_ptr()) });
            let theirs = !found.is_null() && found != hook && found != next;
            (!hook.is_null()).then(|| Target {
                name: replaced.name,
                hook: hook.addr(),
                next: next.addr(),
                guest: replaced.guest,
                own: theirs && object_of(found) != Some(libc),
            })
        };
        REPLACED.iter().filter_map(one).collect()
    }

    /// Decides about a word that has `value`. `is_new`: that lies in the loaded library itself, so the loader has not looked the
    /// function up yet.
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
        mending.mend(&object);
    }
    0
}

impl Mending {
    fn mend(&mut self, object: &Object) {
        let mut closed = object.closed();
        for word in object.words() {
            let Some(target) = self.targets.iter().find(|target| target.name == word.name) else { continue };
            let value = word.value();
            match target.fate(value, object.contains(value), &self.libc) {
                Fate::Stays => {}
                Fate::Fails => self.failed = true,
                Fate::Ours => self.failed |= !word.set(target.hook, &mut closed),
            }
        }
        self.failed |= !closed.close();
    }
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
