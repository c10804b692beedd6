//! Files of rules: which, in which order, and whether to believe them. Nothing here allocates once the places are known, but [`Room::Heap`].

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use dp_edge::sys::files::{meta, File, Meta};
use thiserror::Error;

use super::MAX_LEN;
use crate::{Files, RuleError, Rules};

/// What is wrong with a text of rules, or the file that it is in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Trouble {
    /// A rule that cannot be used.
    #[error("{0}")]
    Rule(RuleError),
    /// Text that is none.
    #[error("not UTF-8 text; rewrite it (rules are described in dp-preload.conf(5))")]
    NotText,
    /// More text than anybody needs.
    #[error("longer than {MAX_LEN} bytes; shorten it")]
    TooLong,
    /// It cannot be opened or read; the errno.
    #[error("{}; make it readable, or remove it", io::Error::from_raw_os_error(*.0))]
    Unreadable(i32),
    /// A folder, a device, a pipe.
    #[error("not a regular file; put a file of rules there, or remove it")]
    NotAFile,
    /// A file where the folder should be.
    #[error("not a folder; put files of rules into one of that name, or remove it")]
    NotAFolder,
    /// Somebody else's.
    #[error("belongs to user {owner}; only what is root's or of user {user} is read (chown it)")]
    Owner {
        /// Whose it is.
        owner: u32,
        /// The user that wants to read it.
        user: u32,
    },
    /// Open to others; its permission bits.
    #[error("others can write to it (mode {0:03o}); run chmod go-w on it")]
    Writable(u32),
}

/// Where a search looks that finds no rules in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Whose files are read, besides root's: who started the program, whoever it is by now.
    user: u32,
    /// `DP_CONFIG`: nothing else counts.
    named: Option<CString>,
    /// The user's file.
    own: Option<CString>,
    system: CString,
    /// `.d` beside it.
    folder: CString,
    /// Files whose change means: read anew.
    marks: [Option<CString>; 2],
}

/// The marks as they were; equal while nobody has made one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks([Option<Mark>; 2]);

/// Which file, and when it was written.
type Mark = ((u64, u64), (i64, i64));

/// What is told of each file before it is read: the file, or the folder and the name in it.
type Seen<'a> = &'a mut dyn FnMut(&CStr, Option<&CStr>);

impl Places {
    pub(super) fn named(path: CString, user: u32) -> Places {
        let none = CString::default();
        let marks = [Some(with_ending(&path, b".reload")), None];
        Places { user, named: Some(path), own: None, system: none.clone(), folder: none, marks }
    }

    pub(super) fn usual(own: Option<CString>, system: CString, user: u32) -> Places {
        let folder = with_ending(&system, b".d");
        let marks = [own.as_ref(), Some(&system)].map(|path| path.map(|path| with_ending(path, b".reload")));
        Places { user, named: None, own, system, folder, marks }
    }

    /// The file that is the only place, and must have rules.
    pub(super) fn only(&self) -> Option<PathBuf> {
        self.named.as_ref().map(path_of)
    }

    /// The files of marks: `.reload` behind the name of the file of rules.
    pub fn mark_files(&self) -> Vec<PathBuf> {
        self.marks.iter().flatten().map(path_of).collect()
    }

    /// The marks as they are.
    pub fn marks(&self) -> Marks {
        Marks(self.marks.each_ref().map(|mark| {
            let meta = meta(mark.as_deref()?).ok()?;
            Some((meta.file, meta.modified))
        }))
    }

    /// Reads the rules of the first place that has some, by way of `room`; how many files they were of. `seen` is told of each
    /// file before it is read.
    ///
    /// # Errors
    /// What was told of last cannot be used. `rules` has some, or none, of them.
    pub fn read(&self, room: Room, rules: &mut Rules, seen: Seen) -> Result<usize, Trouble> {
        rules.clear();
        let mut reader = Reader { user: self.user, room, rules, files: 0 };
        if let Some(path) = &self.named {
            reader.take_one(path, opened(None, path), seen)?;
        } else {
            if let Some(path) = &self.own {
                reader.take_one(path, reachable(path), seen)?;
            }
            if reader.files == 0 {
                reader.take_folder(&self.folder, seen)?;
                reader.take_one(&self.system, reachable(&self.system), seen)?;
            }
        }
        let files = usize::from(reader.files);
        rules.complete()?;
        Ok(files)
    }
}

fn path_of(path: &CString) -> PathBuf {
    OsString::from_vec(path.clone().into_bytes()).into()
}

fn with_ending(path: &CStr, ending: &[u8]) -> CString {
    // Neither piece has a zero in it.
    CString::new([path.to_bytes(), ending].concat()).unwrap_or_default()
}

/// None: there is no such file.
fn opened(folder: Option<&File>, path: &CStr) -> Result<Option<File>, Trouble> {
    match File::open(folder, path) {
        Ok(file) => Ok(Some(file)),
        Err(libc::ENOENT | libc::ENOTDIR) => Ok(None),
        Err(e) => Err(Trouble::Unreadable(e)),
    }
}

/// None: there is no such file, or it lies in a folder that the user may not enter, as the home of
/// someone else that `HOME` still names after a change of user.
fn reachable(path: &CStr) -> Result<Option<File>, Trouble> {
    match opened(None, path) {
        Err(Trouble::Unreadable(_)) if meta(path) == Err(libc::EACCES) => Ok(None),
        other => other,
    }
}

/// Where a file is read to.
#[derive(Debug)]
pub enum Room<'a> {
    /// Memory that is there, for one byte more than [`MAX_LEN`].
    Given(&'a mut [u8]),
    /// The heap's, as much as the longest file takes: most programs begin where there is none, and pay for each page.
    Heap(Vec<u8>),
}

impl Room<'_> {
    /// The text of a file, or more than [`MAX_LEN`] bytes of it.
    fn read(&mut self, file: &File) -> Result<&[u8], i32> {
        const FIRST: usize = 4096;
        let heap = match self {
            Room::Given(room) => return file.read(room).map(|n| &room[..n]),
            Room::Heap(heap) => heap,
        };
        let mut n = 0;
        loop {
            if n == heap.len() {
                heap.resize((2 * n).clamp(FIRST, MAX_LEN + 1), 0);
            }
            n += file.read(&mut heap[n..])?;
            if n < heap.len() || n > MAX_LEN {
                return Ok(&heap[..n]);
            }
        }
    }
}

struct Reader<'a> {
    user: u32,
    room: Room<'a>,
    rules: &'a mut Rules,
    files: u16,
}

impl Reader<'_> {
    /// Appends the rules of a file that may be there.
    fn take_one(
        &mut self,
        path: &CStr,
        file: Result<Option<File>, Trouble>,
        seen: Seen,
    ) -> Result<(), Trouble> {
        if !matches!(file, Ok(None)) {
            seen(path, None);
        }
        file?.map_or(Ok(()), |file| self.take(&file))
    }

    /// Appends the rules of an open file.
    #[inline(never)]
    fn take(&mut self, file: &File) -> Result<(), Trouble> {
        let meta = file.meta().map_err(Trouble::Unreadable)?;
        if !meta.is_file() {
            return Err(Trouble::NotAFile);
        }
        // It is open already, so it cannot be exchanged for another after this.
        self.believe(&meta)?;
        let bytes = self.room.read(file).map_err(Trouble::Unreadable)?;
        if bytes.len() > MAX_LEN {
            return Err(Trouble::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Trouble::NotText)?;
        self.rules.read(text, self.files, &Files)?;
        self.files += 1;
        Ok(())
    }

    fn believe(&self, meta: &Meta) -> Result<(), Trouble> {
        if meta.uid != 0 && meta.uid != self.user {
            return Err(Trouble::Owner { owner: meta.uid, user: self.user });
        }
        if meta.mode & 0o022 != 0 {
            return Err(Trouble::Writable(meta.mode & 0o7777));
        }
        Ok(())
    }

    /// The same for the files of a folder, in the order of their names.
    #[inline(never)]
    fn take_folder(&mut self, path: &CStr, seen: Seen) -> Result<(), Trouble> {
        let folder = match reachable(path) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Ok(()),
            Err(trouble) => {
                seen(path, None);
                return Err(trouble);
            }
        };
        self.enter(&folder).inspect_err(|_| seen(path, None))?;
        let mut name = Name { bytes: [0; 256] };
        // Once for each file: a folder has few, and nothing need be kept of them.
        while next_name(&folder, &mut name).inspect_err(|_| seen(path, None))? {
            let file = opened(Some(&folder), name.text());
            // One that went away meanwhile is none.
            if !matches!(file, Ok(None)) {
                seen(path, Some(name.text()));
            }
            file?.map_or(Ok(()), |file| self.take(&file))?;
        }
        Ok(())
    }

    fn enter(&self, folder: &File) -> Result<(), Trouble> {
        let meta = folder.meta().map_err(Trouble::Unreadable)?;
        if meta.mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(Trouble::NotAFolder);
        }
        self.believe(&meta)
    }
}

/// A file's name, with the zero.
struct Name {
    bytes: [u8; 256],
}

impl Name {
    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// Makes of a name the first one behind it that is one of a file of rules; false: there is none.
#[inline(never)]
fn next_name(folder: &File, name: &mut Name) -> Result<bool, Trouble> {
    let mut least = Name { bytes: [0; 256] };
    let each = folder.each_entry(|entry| {
        let (bytes, best) = (entry.to_bytes(), least.text().to_bytes());
        let is_ours = bytes.ends_with(b".conf") && !bytes.starts_with(b".");
        if is_ours && bytes > name.text().to_bytes() && (best.is_empty() || bytes < best) {
            least.bytes = [0; 256];
            least.bytes[..bytes.len()].copy_from_slice(bytes);
        }
    });
    each.map_err(Trouble::Unreadable)?;
    let found = !least.text().is_empty();
    *name = least;
    Ok(found)
}
