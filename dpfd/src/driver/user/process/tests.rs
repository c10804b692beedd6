//! Numbers that are taken.

use super::*;
use crate::driver::user::testing;

#[test]
fn a_number_is_taken_from_the_moment_at_which_it_is_entered() {
    let process = testing::process();
    let made = process.make(|entry| {
        assert!(process.shared.registry.enter(7711, entry)?);
        // Another thread, and another process, which asks at the door.
        assert!(matches!(process.open(7711), Err(Error::InUse(7711))));
        let door = process.shared.registry.door_path(&entry.process);
        assert_eq!(door::ask(&door, 7711, entry.serial, ANSWER), Answer::Open);
        Ok(Addr::local(7711))
    });
    let (_descriptor, inner) = made.expect("an endpoint");
    assert!(!process.is_entering(inner.entry.serial));
    // One that could not be made takes nothing.
    let mut serial = 0;
    let refused = process.make(|entry| {
        serial = entry.serial;
        assert!(process.is_entering(serial));
        Err(Error::BadDpid(0))
    });
    assert!(refused.is_err() && !process.is_entering(serial));
}
