//! The variables that a process was started with: what its shim does not take as it stands, and says nothing of.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use dp_edge::setting::Wrong;
use dp_rules::config::environment::OF_SHIM;
use dp_rules::config::{log, slips};
use dpfd::addr::OWN_NID;

use super::Finding;

/// All that there is to say, of `/proc/PID/environ`.
pub fn examine(environ: &[u8]) -> Vec<Finding> {
    let way_out = "correct or unset it where the program is started, and start it again";
    let wrong = |text: String| Finding::note("variables", text, way_out);
    let mut found = Vec::new();
    for variable in environ.split(|&byte| byte == 0) {
        let Some(at) = variable.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..]));
        if name == log::NAME {
            found.extend(of_log(value, wrong));
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

fn of_log(value: &OsStr, wrong: impl Fn(String) -> Finding) -> Option<Finding> {
    match log::parse(value) {
        Ok(said) => said.map(|log| Finding::fine("log", format!("its shim writes to {log}"))),
        Err(fault) => Some(wrong(log::Wrong { value: value.into(), fault }.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_the_shim_does_not_take_is_told() {
        let environ =
            b"PATH=/bin\0DP_SPIN=x\0DP_RING=8192\0DP_AFTR=3\0DP_LONG=1\0DP_LOG=stderr:x\0DP_NID=0\0DP_AFTER=\0";
        let found = examine(environ);
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
        let found = examine(b"DP_LOG=/var/log/dp:debug\0");
        assert_eq!(found, [Finding::fine("log", "its shim writes to /var/log/dp, debug")]);
        assert_eq!(examine(b"DP_LOG=\0"), []);
    }

    #[test]
    fn each_number_has_a_known_name() {
        assert!(OF_SHIM.into_iter().chain([&OWN_NID]).all(|number| slips::NAMES.contains(&number.name)));
        assert!((OWN_NID.low..=OWN_NID.high).contains(&OWN_NID.default));
    }
}
