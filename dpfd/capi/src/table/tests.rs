use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use dpfd::driver::{self, Driver};

use super::*;

fn open() -> c_int {
    let folder = std::env::temp_dir().join(format!("dp-table-{}", std::process::id()));
    std::env::set_var("DP_RUNTIME_DIR", folder);
    let (fd, served) = driver::open(Some(Driver::User), 0).expect("an endpoint");
    enter(fd, served).unwrap_or_else(|e| panic!("{e}"))
}

fn own(fd: c_int) -> Use {
    match find(fd, Direction::Out) {
        Ok(Found::Own(own)) => own,
        Ok(Found::Foreign(_)) => panic!("{fd} is foreign"),
        Err(e) => panic!("{e}"),
    }
}

fn close(fd: c_int) {
    // SAFETY: a number that only its test knows.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

fn shell_is_free(shell: *const Shell) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if list().free.iter().any(|free| ptr::eq(*free, shell)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

// One test: the table is the process's, and so are the numbers.
#[test]
fn a_number_leads_to_its_endpoint_until_that_is_over() {
    let fd = open();
    let first = own(fd);
    assert_eq!(slot(fd, false).expect("a chunk").load(Relaxed).cast_const(), ptr::from_ref(first.shell));

    // A copy is the same endpoint, and ends the shortcut of the first number.
    // SAFETY: open as long as the test wants.
    let copy = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().expect("a copy");
    assert!(ptr::eq(own(copy.as_raw_fd()).shell, first.shell));
    assert!(slot(fd, false).expect("a chunk").load(Relaxed).is_null());
    assert!(ptr::eq(own(fd).shell, first.shell));
    drop(copy);

    // Closed while it is in use: nobody drops it under the user.
    let (shell, dpid) = (ptr::from_ref(first.shell), first.dpid());
    close(fd);
    assert!(matches!(find(fd, Direction::Out), Err(Fault::NotOpen(_))));
    let end = Instant::now() + Duration::from_secs(10);
    while !first.shell.leaving.load(SeqCst) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(first.dpid(), dpid);
    assert!(list().free.is_empty());
    drop(first);
    assert!(shell_is_free(shell));

    // The next endpoint takes the shell over.
    let fd = open();
    assert!(ptr::eq(own(fd).shell, shell));
    close(fd);
    assert!(shell_is_free(shell));

    // Numbers beyond the table have no slot, and negative ones neither.
    assert!(slot(1 << 20, true).is_none() && slot(-1, true).is_none());
    let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("dp-table-{}", std::process::id())));
}
