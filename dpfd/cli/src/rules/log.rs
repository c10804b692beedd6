//! Where `DP_LOG` has shims write: whether they could, found out without a trace.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use dp_rules::config::log::{self, Log, Place};
use nix::unistd::{eaccess, AccessFlags};

/// What the variable says; none: it is not set.
///
/// # Errors
///
/// It says nothing, or names a place that this process could not write to; in words.
pub fn check() -> Result<Option<Log>, String> {
    let said = log::check().map_err(|wrong| wrong.to_string())?;
    said.as_ref().map_or(Ok(()), look)?;
    Ok(said)
}

/// A shim makes the file where there is none; so its folder must take one then.
fn look(log: &Log) -> Result<(), String> {
    let opened = || log.check_place().map_err(|error| error.to_string());
    let Place::File(path) = &log.place else { return opened() };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let may =
        |path: &Path, access| eaccess(path, access).map_err(|errno| log.unwritable(errno as i32).to_string());
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            may(path.parent().unwrap_or(path), AccessFlags::W_OK | AccessFlags::X_OK)
        }
        // A look that opened the pipe and closed it again would be an end of file to its reader.
        Ok(meta) if meta.file_type().is_fifo() => may(path, AccessFlags::W_OK),
        _ => opened(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dp_rules::config::log::Level;

    #[test]
    fn a_file_that_could_be_made_is_not_made() {
        let folder = std::env::temp_dir().join(format!("dp-rules-log-{}", std::process::id()));
        let log = |name: &str| {
            let path = folder.join(name).into_os_string().into_encoded_bytes();
            Log { place: Place::File(std::ffi::CString::new(path).unwrap()), level: Level::Info }
        };
        assert!(look(&log("a"))
            .unwrap_err()
            .contains("/a: No such file or directory (os error 2); name a file"));
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(look(&log("a")), Ok(()));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::write(folder.join("a"), "x").unwrap();
        assert_eq!(look(&log("a")), Ok(()));
        assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "x");
        assert!(look(&log("a/b")).unwrap_err().contains("/a/b: Not a directory"));
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        assert!(look(&log("link")).is_err(), "the shim follows none");
        nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(look(&log("pipe")), Ok(()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
