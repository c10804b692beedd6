//! This host: what channels need of it.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::resource::{getrlimit, Resource};
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockProtocol, SockType};
use nix::sys::utsname::uname;

use super::Finding;
use crate::{needs, shim};

/// All that there is to say.
pub fn examine() -> Vec<Finding> {
    let mut found = vec![kernel(), pages(), shim_loads()];
    found.push(match memfd_create(c"dp-doctor", MFdFlags::MFD_CLOEXEC) {
        Ok(_) => Finding::fine("memory", "memfd_create(2) works; /dev/shm is not needed"),
        Err(errno) => Finding::bad(
            "memory",
            format!("memfd_create(2): {}", errno.desc()),
            "allow it in the sandbox that dp runs in",
        ),
    });
    let made =
        |family, kind, protocol: Option<SockProtocol>| socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol);
    found.push(match made(AddressFamily::Unix, SockType::SeqPacket, None) {
        Ok(_) => Finding::fine("AF_UNIX", "the two ends can find each other"),
        Err(errno) => Finding::bad("AF_UNIX", errno.desc(), needs::OPEN_FAMILIES),
    });
    found.push(match made(AddressFamily::Netlink, SockType::Raw, Some(SockProtocol::NetlinkSockDiag)) {
        Ok(_) => Finding::fine("sock_diag", "each end can prove that it holds its connection"),
        Err(errno) => {
            let way_out = format!("have inet_diag in the kernel; {}", needs::OPEN_FAMILIES);
            Finding::bad("sock_diag", errno.desc(), way_out)
        }
    });
    found.push(cores());
    found.push(clock());
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        found.push(match soft {
            0..needs::FEW_FILES => Finding::note(
                "limits",
                format!("programs that start here may have {soft} descriptors"),
                "ulimit -n",
            ),
            _ => Finding::fine("limits", format!("{soft} descriptors for each program that starts here")),
        });
    }
    let selinux = fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|on| on.trim() == "1");
    if selinux {
        let way_out = "where connections stay on TCP for no-door or owner, look for denials in the audit log";
        found.push(Finding::note("security", "SELinux enforces its policy", way_out));
    }
    found.push(match fs::metadata("/dev/dp") {
        Ok(_) => Finding::fine("driver", "/dev/dp serves endpoints"),
        Err(_) => Finding::fine("driver", "no /dev/dp: the library serves endpoints by itself"),
    });
    found
}

/// Older ones have no SO_NETNS_COOKIE, by which an end knows its network namespace.
const OLDEST: (u32, u32) = (5, 14);

pub fn kernel() -> Finding {
    kernel_of(&uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default())
}

fn kernel_of(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        let way_out = format!("Linux {}.{} or newer; with an older one all stays on TCP", OLDEST.0, OLDEST.1);
        return Finding::bad(
            "kernel",
            format!("Linux {release} does not tell a socket's network namespace"),
            way_out,
        );
    }
    Finding::fine("kernel", format!("Linux {release}"))
}

pub fn pages() -> Finding {
    if dp_edge::sys::process::has_usual_pages() {
        Finding::fine("pages", "of 4 KiB")
    } else {
        let way_out = "a kernel with pages of 4 KiB; with others all stays on TCP";
        Finding::bad("pages", "this kernel's are not of 4 KiB", way_out)
    }
}

/// Whether a program starts with the shim.
fn shim_loads() -> Finding {
    let path = match shim::find() {
        Ok(path) => path,
        Err(why) => return Finding::bad("shim", why.to_string(), "make install, or a package"),
    };
    // The loader only warns of a library that it cannot load.
    let mut command = Command::new("/bin/true");
    command.env("LD_PRELOAD", &path).env("DP_DISABLE", "1").stdin(Stdio::null());
    match command.output() {
        Ok(out) if out.status.success() && out.stderr.is_empty() => {
            Finding::fine("shim", format!("{} loads", path.display()))
        }
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; ");
            Finding::bad(
                "shim",
                format!("{} does not load: {said}", path.display()),
                "build it on a system as old as this one",
            )
        }
        Err(error) => Finding::note("shim", format!("/bin/true: {error}"), "it could not be tried"),
    }
}

fn cores() -> Finding {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => {
            let way_out =
                "a channel still saves work, but nobody can look while the other end runs: gains are smaller";
            Finding::note("processors", "one", way_out)
        }
        n => Finding::fine("processors", format!("{n}")),
    }
}

/// Looks are timed by the processor's counter.
fn clock() -> Finding {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref().map(str::trim) {
        Ok("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page") => {
            Finding::fine("clock", source.unwrap_or_default().trim())
        }
        Ok(other) => Finding::note(
            "clock",
            format!("{other}: to ask for the time is a system call"),
            "looks are dearer; choose tsc if it is stable here",
        ),
        Err(_) => Finding::fine("clock", "its source is not told here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_kernel_that_is_too_old_is_bad() {
        for (release, verdict) in [
            ("5.13.19-generic", Verdict::Bad),
            ("4.19", Verdict::Bad),
            ("5.14.0-70.el9", Verdict::Fine),
            ("6.1.0-18-amd64", Verdict::Fine),
            ("", Verdict::Bad),
        ] {
            assert_eq!(kernel_of(release).verdict, verdict, "{release:?}");
        }
    }
}
