//! A file of 64-bit words, in memory: what is stored there outlives this process, however it ends.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use crate::segment::map_flat;

/// The words of a file. The file must not be made shorter meanwhile: reading what is missing ends the process.
#[derive(Debug)]
pub struct Words {
    base: *const AtomicU64,
    count: usize,
}

// SAFETY: the mapping belongs to the value, and everything in it is an atomic.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the first `count` words of a file that is open for reading and writing, and makes it that long if it is shorter.
    /// What it is made longer by is 0, and takes no memory before it is written.
    ///
    /// # Errors
    ///
    /// EINVAL for none at all; those of ftruncate(2) and mmap(2).
    pub fn map(file: &File, count: usize) -> io::Result<Words> {
        let bytes = count.checked_mul(8).filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len() < bytes as u64 {
            file.set_len(bytes as u64)?;
        }
        let base = map_flat(file.as_fd(), bytes)?;
        Ok(Words { base: base.cast(), count })
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: a page's address is aligned for a word, so many are mapped as long as self lives, and any bits are an
        // atomic. Another process that has the file can write them, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.base, self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; references into it borrow self.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.count * 8) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("dp-words-{}", std::process::id()));
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let words = Words::map(&open(), 1000).unwrap();
        assert_eq!(words.all().len(), 1000);
        words.all()[999].store(4711, Ordering::Relaxed);
        drop(words);
        assert_eq!(Words::map(&open(), 1000).unwrap().all()[999].load(Ordering::Relaxed), 4711);
        assert_eq!(open().metadata().unwrap().len(), 8000);
        assert!(Words::map(&open(), 0).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
