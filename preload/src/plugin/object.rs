//! A loaded library as it lies in memory: the words by which it calls others (elf(5), the generic ABI's dynamic section).

use core::ffi::{c_int, CStr};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::{dl_phdr_info, Elf64_Phdr};

/// A loaded library, or the program. What is there the loader has read, too, and believed.
pub(super) struct Object<'a> {
    base: usize,
    pub(super) headers: &'a [Elf64_Phdr],
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
    pub(super) unsafe fn of<'a>(info: *const dl_phdr_info) -> Object<'a> {
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

    fn parts(&self, kind: u32) -> impl Iterator<Item = Range<usize>> + '_ {
        let range = |h: &Elf64_Phdr| {
            let start = self.base.wrapping_add(h.p_vaddr as usize);
            start..start.wrapping_add(h.p_memsz as usize)
        };
        self.headers.iter().filter(move |h| h.p_type == kind).map(range)
    }

    pub(super) fn loaded(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.parts(libc::PT_LOAD)
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.loaded().any(|part| part.contains(&at))
    }

    /// What its dynamic section says under this number.
    pub(super) fn dynamic(&self, tag: usize) -> Option<usize> {
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

    /// The pages that the loader has closed for writing: what lies in whole ones, however long the kernel's are.
    pub(super) fn closed(&self) -> Closed {
        let part = self.parts(libc::PT_GNU_RELRO).next();
        Closed { part: part.map_or(0..0, |part| part.start & !4095..part.end & !4095), is_open: false }
    }

    /// The words by which it calls what it does not define for itself.
    pub(super) fn words(&self) -> impl Iterator<Item = Word<'_>> {
        let tables = self.address(5).zip(self.address(6));
        tables.into_iter().flat_map(move |(names, symbols)| {
            self.entries().filter(|e| KINDS.contains(&e.kind) && e.addend == 0).filter_map(move |entry| {
                // SAFETY: an index of its own.
                let symbol = unsafe { &*(symbols as *const Symbol).add(entry.symbol as usize) };
                let at = self.base.wrapping_add(entry.offset);
                (symbol.section == 0).then(|| Word {
                    // SAFETY: a string of its own.
                    name: unsafe { CStr::from_ptr((names + symbol.name as usize) as *const _) },
                    at,
                    object: self,
                })
            })
        })
    }

    /// Not a word among code, which is closed by now.
    fn is_data(&self, at: usize) -> bool {
        let is_data = |h: &&Elf64_Phdr| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_W != 0;
        self.headers.iter().filter(is_data).any(|h| {
            let start = self.base.wrapping_add(h.p_vaddr as usize);
            (start..start.wrapping_add(h.p_memsz as usize)).contains(&at)
        })
    }
}

/// A word that the loader writes.
pub(super) struct Word<'a> {
    /// Of what it is the address.
    pub(super) name: &'a CStr,
    at: usize,
    object: &'a Object<'a>,
}

impl Word<'_> {
    fn word(&self) -> &AtomicUsize {
        // SAFETY: the loader has written it, and nobody else does now: there is one thread.
        unsafe { AtomicUsize::from_ptr(self.at as *mut usize) }
    }

    pub(super) fn value(&self) -> usize {
        self.word().load(Ordering::Relaxed)
    }

    /// False: it cannot be written.
    pub(super) fn set(&self, value: usize, closed: &mut Closed) -> bool {
        let can = self.object.is_data(self.at) && (!closed.part.contains(&self.at) || closed.open());
        if can {
            self.word().store(value, Ordering::Relaxed);
        }
        can
    }
}

/// Pages of data that the loader has closed for writing.
pub(super) struct Closed {
    part: Range<usize>,
    is_open: bool,
}

impl Closed {
    fn open(&mut self) -> bool {
        self.is_open = self.is_open || self.protect(libc::PROT_READ | libc::PROT_WRITE);
        self.is_open
    }

    /// As they were. False: they could not be.
    pub(super) fn close(self) -> bool {
        !self.is_open || self.protect(libc::PROT_READ)
    }

    fn protect(&self, how: c_int) -> bool {
        // SAFETY: see the type.
        unsafe { libc::mprotect(self.part.start as *mut _, self.part.len(), how) == 0 }
    }
}
