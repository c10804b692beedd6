//! The file that has a graph's key: its text, readable by its owner alone. The only place of this crate that touches files;
//! nothing of it is needed while frames pass.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::key::{BadKey, GraphKey, NoRandom};

/// Bytes of a file at most.
const LONGEST: u64 = 4096;

/// Why there is no key. Each says what to do, behind a semicolon.
#[derive(Debug, Error)]
pub enum BadFile {
    /// It is not there.
    #[error("there is no such file; `dp graph key FILE` makes one, which every node of the graph needs")]
    Missing,
    /// It is there already.
    #[error("it exists, and a key is not overwritten, since nodes that have it would not understand others any more; choose another name, or remove it yourself")]
    Exists,
    /// Not only its owner may read it, or write.
    #[error("its mode is {0:04o}, so others may know the key; make a new one, or if nobody has read it: chmod 600")]
    Mode(u32),
    /// A folder, a pipe, a device ...
    #[error("it is no regular file; name the file that `dp graph key FILE` made")]
    NoFile,
    /// Its text.
    #[error("{0}; take the file as `dp graph key FILE` made it")]
    Key(#[from] BadKey),
    /// None could be made.
    #[error(transparent)]
    Random(#[from] NoRandom),
    /// The system's word.
    #[error("{0}; every node needs the file, readable for the user that runs its gateway")]
    Failed(#[from] io::Error),
}

/// The key in a file.
///
/// # Errors
/// There is none, or others could have read it.
pub fn read(path: &Path) -> Result<GraphKey, BadFile> {
    // A pipe without a writer would wait.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BadFile::Missing,
        _ => BadFile::Failed(error),
    })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(BadFile::NoFile);
    }
    if about.mode() & 0o077 != 0 {
        return Err(BadFile::Mode(about.mode() & 0o7777));
    }
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST as usize));
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(GraphKey::parse(&String::from_utf8_lossy(&text))?)
}

/// Makes a new key and a file of it, with the mode 0600.
///
/// # Errors
/// It is there already, or cannot be made; then there is none.
pub fn create(path: &Path) -> Result<(), BadFile> {
    let key = GraphKey::random()?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BadFile::Exists,
        _ => BadFile::Failed(error),
    })?;
    let written = write(&mut file, &key);
    if written.is_err() {
        // This call made it, and half a key is none.
        let _ = std::fs::remove_file(path);
    }
    Ok(written?)
}

fn write(file: &mut File, key: &GraphKey) -> io::Result<()> {
    file.write_all(Zeroizing::new(key.to_text()).as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
