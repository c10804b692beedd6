//! Files that are read by system calls alone: no allocation, no function of libc that somebody may have replaced.

use core::ffi::CStr;

use super::raw;

/// An open file that closes itself.
pub struct File(i32);

/// What a file is, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The file's number and its device's.
    pub file: (u64, u64),
    /// When its contents changed last: seconds, nanoseconds.
    pub modified: (i64, i64),
}

impl Meta {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    fn of(stat: &libc::stat) -> Meta {
        Meta {
            mode: stat.st_mode,
            uid: stat.st_uid,
            file: (stat.st_dev, stat.st_ino),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

impl File {
    /// Opens a file to read it, without waiting for whoever writes to a pipe; `in_folder`: a path that begins there.
    ///
    /// # Errors
    ///
    /// Those of openat(2).
    pub fn open(in_folder: Option<&File>, path: &CStr) -> Result<File, i32> {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let from = in_folder.map_or(libc::AT_FDCWD, |folder| folder.0);
        let args = [from as usize, path.as_ptr() as usize, flags as usize, 0, 0, 0];
        // SAFETY: the path is a C string.
        unsafe { raw::call(libc::SYS_openat, args) }.map(|fd| File(fd as i32))
    }

    /// What it is.
    ///
    /// # Errors
    ///
    /// Those of fstat(2).
    pub fn meta(&self) -> Result<Meta, i32> {
        meta_of(self.0)
    }

    /// Reads until `buf` is full or the file ends; how much there was.
    ///
    /// # Errors
    ///
    /// Those of read(2).
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, i32> {
        let mut n = 0;
        while n < buf.len() {
            let rest = &mut buf[n..];
            let args = [self.0 as usize, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0];
            // SAFETY: the kernel writes into the slice only.
            match unsafe { raw::call(libc::SYS_read, args) } {
                Ok(0) => break,
                Ok(k) => n += k,
                Err(libc::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(n)
    }

    /// Tells `f` the name of each entry of a folder, from the beginning, `.` and `..` included.
    ///
    /// # Errors
    ///
    /// Those of lseek(2) and getdents64(2).
    #[inline(never)]
    pub fn each_entry(&self, mut f: impl FnMut(&CStr)) -> Result<(), i32> {
        // Aligned as the kernel's records are; room for a name of 255 bytes.
        let mut buf = [0u64; 64];
        // SAFETY: numbers.
        unsafe { raw::call(libc::SYS_lseek, [self.0 as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]) }?;
        loop {
            let args = [self.0 as usize, buf.as_mut_ptr() as usize, size_of_val(&buf), 0, 0, 0];
            // SAFETY: the kernel writes into the buffer only.
            let n = unsafe { raw::call(libc::SYS_getdents64, args) }?;
            if n == 0 {
                return Ok(());
            }
            names(&buf, n, &mut f);
        }
    }
}

/// The names in what getdents64(2) wrote: inode 8, offset 8, length of the record 2, type 1, then the name and a zero.
#[inline(never)]
fn names(buf: &[u64], n: usize, f: &mut impl FnMut(&CStr)) {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let byte = |i: usize| buf[i / 8].to_ne_bytes()[i % 8];
    let mut at = 0;
    while at + NAME_AT < n {
        let len = usize::from(u16::from_ne_bytes([byte(at + LENGTH_AT), byte(at + LENGTH_AT + 1)]));
        let mut name = [0u8; 256];
        for (to, i) in name.iter_mut().zip(at + NAME_AT..(at + len).min(n)) {
            *to = byte(i);
        }
        if let Ok(name) = CStr::from_bytes_until_nul(&name) {
            f(name);
        }
        at += len.max(NAME_AT);
    }
}

/// What a path leads to.
///
/// # Errors
///
/// Those of stat(2).
pub fn meta(path: &CStr) -> Result<Meta, i32> {
    look(libc::AT_FDCWD, path, 0)
}

/// What a descriptor stands for.
///
/// # Errors
///
/// EBADF: for nothing.
pub fn meta_of(fd: i32) -> Result<Meta, i32> {
    look(fd, c"", libc::AT_EMPTY_PATH)
}

fn look(from: i32, path: &CStr, flags: i32) -> Result<Meta, i32> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let args = [from as usize, path.as_ptr() as usize, stat.as_mut_ptr() as usize, flags as usize, 0, 0];
    // SAFETY: a C string, and the kernel fills the struct.
    unsafe { raw::call(libc::SYS_newfstatat, args) }?;
    // SAFETY: filled in; zero is a value of it, too.
    Ok(Meta::of(unsafe { &stat.assume_init() }))
}

impl Drop for File {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_folder_of_many_entries_is_told_as_std_tells_it() {
        let folder = std::env::temp_dir().join(format!("dp-files-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut expected: BTreeSet<Vec<u8>> = [b".".to_vec(), b"..".to_vec()].into();
        for i in 0..100usize {
            let name = format!("{i}{}", "x".repeat(i * 2 + 50 * (i % 2)));
            std::fs::write(folder.join(&name), "text").unwrap();
            expected.insert(name.into_bytes());
        }
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        let open = File::open(None, &path).unwrap();
        for _ in 0..2 {
            let mut seen = BTreeSet::new();
            open.each_entry(|name| assert!(seen.insert(name.to_bytes().to_vec()))).unwrap();
            assert_eq!(seen, expected);
        }
        let one = File::open(Some(&open), c"0").unwrap();
        let mut buf = [0; 9];
        assert_eq!((one.read(&mut buf), &buf[..4]), (Ok(4), &b"text"[..]));
        let meta = one.meta().unwrap();
        let std = std::fs::metadata(folder.join("0")).unwrap();
        assert!(meta.is_file() && !open.meta().unwrap().is_file());
        assert_eq!((meta.mode, meta.uid, meta.file.1), (std.mode(), std.uid(), std.ino()));
        assert_eq!(meta.modified, (std.mtime(), std.mtime_nsec()));
        assert_eq!(super::meta(&path), open.meta());
        assert_eq!(super::meta(c"/there/is/nothing").unwrap_err(), libc::ENOENT);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
