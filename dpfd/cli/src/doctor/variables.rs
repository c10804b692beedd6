//! The variables that a process was started with: what its shim does not take as it stands, and says nothing of.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dp_edge::setting::Wrong;
use dp_rules::config::environment::OF_SHIM;
use dp_rules::config::{log, slips};
use dpfd::addr::OWN_NID;

use super::Finding;

/// All that there is to say, of `/proc/PID/environ`. `writes`: whether its shim writes to a place; None: that cannot be seen.
pub fn examine(environ: &[u8], writes: impl Fn(&log::Place) -> Option<bool>) -> Vec<Finding> {
    let way_out = "correct or unset it where the program is started, and start it again";
    let wrong = |text: String| Finding::note("variables", text, way_out);
    let mut found = Vec::new();
    for variable in environ.split(|&byte| byte == 0) {
        let Some(at) = variable.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..]));
        if name == log::NAME {
            found.extend(of_log(value, &writes, wrong));
        } else if let Some(meant) = slips::meant(name) {
            found.push(wrong(slips::told(name, meant)));
        }
        for number in OF_SHIM.into_iter().chain([&OWN_NID]).filter(|number| name == number.name) {
            if let Err(fault) = number.parse(value) {
                found.push(wrong(Wrong { number, value: OsString::from(value), fault }.to_string()));
            }
        }
    }
    found
}

fn of_log(
    value: &OsStr,
    writes: impl Fn(&log::Place) -> Option<bool>,
    wrong: impl Fn(String) -> Finding,
) -> Option<Finding> {
    match log::parse(value) {
        Ok(Some(log)) if writes(&log.place) == Some(false) => {
            let why = match log.place {
                log::Place::Journal => "no systemd-journald is there",
                _ => "it has no such file open, which it could not write to when it was started, or which was renamed since",
            };
            Some(wrong(format!("its shim is to write to {log}, and {why}")))
        }
        Ok(said) => said.map(|log| Finding::fine("log", format!("its shim writes to {log}"))),
        Err(fault) => Some(wrong(log::Wrong { value: value.into(), fault }.to_string())),
    }
}

/// Whether the shim in a process writes there. It has a file open from the start on; None: that cannot be seen.
pub fn writes(pid: u32, place: &log::Place) -> Option<bool> {
    // As the process itself sees it, which may be in another root.
    let inside = |path: &[u8]| {
        let path = Path::new(OsStr::from_bytes(path));
        Some(Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?))
    };
    let path = match place {
        log::Place::Stderr => return Some(true),
        log::Place::Journal => return inside(log::JOURNAL)?.try_exists().ok(),
        log::Place::File(path) => path.to_bytes(),
    };
    let which = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    let wanted = which(&inside(path)?);
    let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|entry| entry.path());
    Some(open.any(|fd| {
        // One that was removed has this behind its name.
        let is_named = |link: &[u8]| link.strip_suffix(b" (deleted)").unwrap_or(link) == path;
        wanted.is_some() && which(&fd) == wanted
            || fs::read_link(&fd).is_ok_and(|link| is_named(link.as_os_str().as_bytes()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_the_shim_does_not_take_is_told() {
        let environ =
            b"PATH=/bin\0DP_SPIN=x\0DP_RING=8192\0DP_AFTR=3\0DP_LONG=1\0DP_LOG=stderr:x\0DP_NID=0\0DP_AFTER=\0";
        let found = examine(environ, |_| None);
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        let starts = [
            "DP_SPIN=x: not a whole number",
            "DP_AFTR is not known",
            "DP_LOG=stderr:x: ",
            "DP_NID=0: too small",
        ];
        assert_eq!(texts.len(), starts.len(), "{texts:?}");
        assert!(texts.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{texts:?}");
        assert!(found.iter().all(|finding| finding.verdict == Verdict::Note && finding.way_out.is_some()));
    }

    #[test]
    fn where_a_log_goes_is_told() {
        let found = examine(b"DP_LOG=/var/log/dp:debug\0", |_| None);
        assert_eq!(found, [Finding::fine("log", "its shim writes to /var/log/dp, debug")]);
        assert_eq!(examine(b"DP_LOG=\0", |_| Some(false)), []);
    }

    #[test]
    fn a_log_that_could_not_be_begun_is_told() {
        let found = examine(b"DP_LOG=/nonexistent/dp\0", |_| Some(false));
        assert!(found.len() == 1 && found[0].verdict == Verdict::Note && found[0].way_out.is_some());
        assert!(found[0].text.starts_with("its shim is to write to /nonexistent/dp, info, and"), "{found:?}");

        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("dp-variables-{own}"));
        let place = log::Place::File(std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap());
        assert_eq!(writes(own, &place), Some(false));
        let file = fs::File::create(&path).unwrap();
        assert_eq!(writes(own, &place), Some(true));
        fs::remove_file(&path).unwrap();
        assert_eq!(writes(own, &place), Some(true));
        // Another one of that name.
        drop(file);
        fs::write(&path, "").unwrap();
        assert_eq!(writes(own, &place), Some(false));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn each_number_has_a_known_name() {
        assert!(OF_SHIM.into_iter().chain([&OWN_NID]).all(|number| slips::NAMES.contains(&number.name)));
        assert!((OWN_NID.low..=OWN_NID.high).contains(&OWN_NID.default));
    }
}
