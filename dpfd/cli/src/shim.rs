//! Where the shim is, and how it gets into a program's LD_PRELOAD.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

const FILE: &str = "libdp_preload.so";

/// Why the shim cannot be loaded.
#[derive(Debug, Error)]
pub enum ShimError {
    #[error("DP_SHIM={0}: no such file; correct the path, or unset DP_SHIM")]
    NotThere(PathBuf),
    #[error("{FILE} was not found in {0}; run `make install`, or set DP_SHIM to its path")]
    NotFound(String),
    #[error("{FILE} was not found in the image, in {0}; install it there first, or set DP_SHIM to its path inside")]
    NotInImage(String),
    #[error(
        "{0}: the loader takes no path with a space or colon; copy it elsewhere and set DP_SHIM to that"
    )]
    Separator(PathBuf),
    #[error("{0}: systemd reads %, quotes and \\ in a path otherwise than the loader; copy it elsewhere and set DP_SHIM to that")]
    Specifier(PathBuf),
}

/// The shim's absolute path: `DP_SHIM`; beside this command; `dp` in one of the usual folders of libraries, from this
/// command; the folder `DP_LIBDIR` of the build.
pub fn find() -> Result<PathBuf, ShimError> {
    if let Some(path) = env::var_os("DP_SHIM").filter(|path| !path.is_empty()).map(PathBuf::from) {
        return match path.canonicalize() {
            Ok(absolute) if absolute.is_file() => Ok(absolute),
            _ => Err(ShimError::NotThere(path)),
        };
    }
    let folders = folders(env::current_exe().ok().as_deref());
    let there = |folder: &PathBuf| folder.join(FILE).canonicalize().ok().filter(|path| path.is_file());
    folders.iter().find_map(there).ok_or_else(|| {
        let looked_in: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        ShimError::NotFound(looked_in.join(", "))
    })
}

/// The same in the tree of an image, where `is_there` tells of a path: `DP_SHIM`, or the usual folders.
pub fn find_in(is_there: &dyn Fn(&Path) -> bool) -> Result<PathBuf, ShimError> {
    if let Some(path) = env::var_os("DP_SHIM").filter(|path| !path.is_empty()).map(PathBuf::from) {
        return if path.is_absolute() && is_there(&path) { Ok(path) } else { Err(ShimError::NotThere(path)) };
    }
    let commands = ["/usr/bin/dp", "/usr/local/bin/dp"].map(Path::new);
    let mut folders: Vec<PathBuf> = commands.iter().flat_map(|exe| folders(Some(exe))).collect();
    folders.dedup();
    let looked_in =
        || folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
    let shims = folders.iter().map(|folder| folder.join(FILE));
    shims.into_iter().find(|shim| is_there(shim)).ok_or_else(|| ShimError::NotInImage(looked_in()))
}

fn folders(exe: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(beside) = exe.and_then(Path::parent) {
        folders.push(beside.to_owned());
        if let Some(prefix) = beside.parent() {
            let of_debian = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
            folders.extend(["lib", "lib64", &of_debian].map(|lib| prefix.join(lib).join("dp")));
        }
    }
    folders.extend(option_env!("DP_LIBDIR").map(PathBuf::from));
    folders
}

/// LD_PRELOAD with the shim first; what is there already stays, and the shim is not named twice.
pub fn preload(shim: &Path, present: Option<OsString>) -> Result<OsString, ShimError> {
    let separates = |byte: &u8| matches!(byte, b' ' | b':');
    let shim_bytes = shim.as_os_str().as_bytes();
    if shim_bytes.iter().any(separates) {
        return Err(ShimError::Separator(shim.to_owned()));
    }
    let present = present.unwrap_or_default();
    let others = present.as_bytes().split(separates).filter(|name| !name.is_empty() && *name != shim_bytes);
    let mut list = shim_bytes.to_vec();
    for other in others {
        list.push(b':');
        list.extend_from_slice(OsStr::from_bytes(other).as_bytes());
    }
    Ok(OsString::from_vec(list))
}

#[cfg(test)]
mod tests;
