//! A route of somebody else's: a shared object with the C interface of `include/dp_route.h`.
//!
//! Its code runs in this process with all of this process's rights, from the moment it is loaded: nobody can protect a
//! program from that. What can be checked is: that nobody else can write to the file, that it has a table of this version,
//! whole, and that its answers make sense. A route that gave an impossible answer is not called again (EPROTO).
#![expect(unsafe_code, reason = "calls of functions in a shared object")]

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::Library;
use nix::errno::Errno;
use thiserror::Error;

use crate::address::{name as route_name, Label, LABEL_MAX, NAME_MAX};
use crate::{Counters, PeerAddr};

mod external;
pub use external::External;

/// The interface's version that this program knows.
pub const ABI: u32 = 1;
const SLOT_MAX: usize = 65_536;
const NOT_ITS_OWN: [&str; 4] = ["udp", "eth", "sim", "shm"];

/// `struct dp_route_slot`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    bytes: *mut c_void,
    room: u32,
    length: u32,
    each: u32,
    from: [u8; LABEL_MAX + 1],
}

/// `struct dp_route_table`. Any function may be missing in a file that is not to be trusted.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    abi: u32,
    size: u32,
    name: *const c_char,
    open: Option<unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void)>,
    descriptor: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    mtu: Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> isize>,
    slot: Option<unsafe extern "C" fn(*mut c_void) -> isize>,
    send: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, *const u16, usize) -> isize>,
    recv: Option<unsafe extern "C" fn(*mut c_void, *mut Slot, usize) -> isize>,
    refresh: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// The same, with all of them there.
#[derive(Clone, Copy, Debug)]
struct Functions {
    open: unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int,
    close: unsafe extern "C" fn(*mut c_void),
    descriptor: unsafe extern "C" fn(*mut c_void) -> c_int,
    mtu: unsafe extern "C" fn(*mut c_void, *const c_char) -> isize,
    slot: unsafe extern "C" fn(*mut c_void) -> isize,
    send: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, *const u16, usize) -> isize,
    recv: unsafe extern "C" fn(*mut c_void, *mut Slot, usize) -> isize,
    refresh: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// Why a shared object is no route here.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be looked at.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Somebody else could have it run whatever he likes.
    #[error("{}: other users can write to it; `chown root` and `chmod go-w` it", .0.display())]
    Writable(PathBuf),
    /// The dynamic linker refuses it.
    #[error("{}: {error}; a route is built with `cc -shared -fPIC`", path.display())]
    Linker {
        /// The file.
        path: PathBuf,
        /// What the linker said.
        error: libloading::Error,
    },
    /// Its table is of no use.
    #[error("{}: {what}; it must be built with a dp_route.h of version {ABI}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// A shared object that was loaded. It stays so until the process ends: code of it may be running in a thread of its own.
#[derive(Debug)]
pub struct Loaded {
    functions: Functions,
    name: Label<NAME_MAX>,
}

impl Loaded {
    /// Loads a route. Its initializers run at once.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(path: &Path) -> Result<Loaded, LoadError> {
        let seen = |error| LoadError::File { path: path.into(), error };
        // Also what a symbolic link, or a search path of the linker's, could make of it.
        let path = &fs::canonicalize(path).map_err(seen)?;
        let file = fs::metadata(path).map_err(seen)?;
        let owner = [0, nix::unistd::geteuid().as_raw()].contains(&file.uid());
        if !owner || file.mode() & 0o022 != 0 {
            return Err(LoadError::Writable(path.clone()));
        }
        let linker = |error| LoadError::Linker { path: path.clone(), error };
        // SAFETY: it runs the file's initializers. Whoever may write that file, so this user or root, is trusted.
        let library = unsafe { Library::new(path) }.map_err(linker)?;
        type Entry = unsafe extern "C" fn() -> *const Table;
        // SAFETY: a symbol of that name is such a function, by the interface; nothing else can be known of it.
        let entry = *unsafe { library.get::<Entry>(b"dp_route_table\0") }.map_err(linker)?;
        // The functions stay valid, whatever becomes of `Loaded`.
        mem::forget(library);
        // SAFETY: the library is loaded.
        let table = unsafe { entry() };
        let wrong = |what: String| LoadError::Table { path: path.clone(), what };
        let (functions, name) = checked(table).map_err(wrong)?;
        Ok(Loaded { functions, name })
    }

    /// The route's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Opens it on this node's address there, the text behind `NAME:`.
    ///
    /// # Errors
    /// What its `open` says; EPROTO if that makes no sense.
    pub fn open(&self, local: &str) -> io::Result<External> {
        let address = PeerAddr::other(self.name(), local);
        let address = address.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let text = CString::new(local)?;
        let mut state = std::ptr::null_mut();
        // SAFETY: a text with its end, and room for the answer.
        let status = unsafe { (self.functions.open)(text.as_ptr(), &raw mut state) };
        errno(status as isize)?;
        let state = NonNull::new(state).filter(|_| status == 0).ok_or(Errno::EPROTO)?;
        let mut route = External {
            functions: self.functions,
            name: self.name,
            state,
            local: address,
            descriptor: -1,
            slot: 0,
            broken: None,
            counters: Counters::default(),
        };
        // SAFETY: open gave this state; so it is in all calls below, until drop.
        (route.descriptor, route.slot) = unsafe {
            let slot = errno((route.functions.slot)(route.state.as_ptr()))?;
            ((route.functions.descriptor)(route.state.as_ptr()), slot)
        };
        // SAFETY: fcntl only looks whether the number is an open descriptor.
        let open = route.descriptor >= 0 && unsafe { libc::fcntl(route.descriptor, libc::F_GETFD) } >= 0;
        if !open || !(1..=SLOT_MAX).contains(&route.slot) {
            return Err(Errno::EPROTO.into());
        }
        Ok(route)
    }
}

fn checked(table: *const Table) -> Result<(Functions, Label<NAME_MAX>), String> {
    if table.is_null() || !table.is_aligned() {
        return Err("dp_route_table() gives no table".into());
    }
    // SAFETY: every version of the table begins with these two numbers.
    let (abi, size) = unsafe { ((*table).abi, (*table).size) };
    if abi != ABI {
        return Err(format!("its interface has version {abi}"));
    }
    if (size as usize) < mem::size_of::<Table>() {
        return Err(format!("its table has {size} bytes instead of {}", mem::size_of::<Table>()));
    }
    // SAFETY: it says that it is as long.
    let table = unsafe { *table };
    if table.name.is_null() {
        return Err("it has no name".into());
    }
    // SAFETY: a text of C, by the interface.
    let name = unsafe { CStr::from_ptr(table.name) }.to_string_lossy();
    let label = route_name(&name).filter(|label| !NOT_ITS_OWN.contains(&label.as_str()));
    let label = label.ok_or_else(|| format!("{name:?} cannot be its name"))?;
    let functions = || {
        Some(Functions {
            open: table.open?,
            close: table.close?,
            descriptor: table.descriptor?,
            mtu: table.mtu?,
            slot: table.slot?,
            send: table.send?,
            recv: table.recv?,
            refresh: table.refresh?,
        })
    };
    Ok((functions().ok_or("a function is missing in its table")?, label))
}

/// The number, or the error that it stands for.
fn errno(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| {
        let number = i32::try_from(answer.unsigned_abs()).ok().filter(|number| *number < 4096);
        io::Error::from_raw_os_error(number.unwrap_or(libc::EPROTO))
    })
}
