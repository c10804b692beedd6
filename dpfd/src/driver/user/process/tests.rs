use std::os::fd::AsRawFd;

use super::super::testing::process;
use super::*;

/// Whether another process may open the number.
#[allow(unsafe_code, clippy::allow_attributes)]
fn opens_in_a_child(dpid: Dpid) -> bool {
    // SAFETY: the child opens an endpoint of its own and leaves without handlers.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let refused = matches!(process().open(dpid), Err(Error::InUse(_)));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(refused)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None) != Ok(nix::sys::wait::WaitStatus::Exited(child, 1))
        }
    }
}

#[test]
fn a_number_that_is_just_being_opened_is_taken() {
    let process = process();
    let opened = process.make(|entry| {
        let dpid = process.enter(7801, entry)?;
        // Its entry is there, and its endpoint not yet.
        assert!(matches!(process.open(7801), Err(Error::InUse(7801))), "another thread");
        assert!(!opens_in_a_child(7801), "another process");
        Ok(Addr::local(dpid))
    });
    let (fd, inner) = opened.unwrap();
    assert!(fd.as_raw_fd() >= 0 && !inner.is_closed());
    assert_eq!(process.shared.registry.look_up(7801), Some(inner.entry.clone()));
}

#[test]
fn one_that_could_not_be_opened_is_not_kept() {
    let process = process();
    let mut serial = 0;
    let failed = process.make(|entry| {
        serial = entry.serial;
        assert!(process.is_entering(serial));
        Err(Error::NoneFree)
    });
    assert!(failed.is_err() && !process.is_entering(serial));
}
