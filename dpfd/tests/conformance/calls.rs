//! What the kernel driver promises beyond the contract: which calls make no system call.

use dpfd::driver::Driver;

use crate::kit::*;

pub fn messages_that_are_there_cost_no_system_call(d: Driver) {
    let first = numbers(2);
    // In a process of its own, which the kernel ends at any call but read, write, exit.
    child(move || {
        let (a, b) = (open(d, first), open(d, first + 1));
        a.target(b.addr()).expect("a target");
        b.pool(64 << 10).expect("a pool");
        let send = || (0..100u64).for_each(|i| a.send(&numbered(i, 100)).expect("room"));
        let mut into = [0; 100];
        let mut receive = || {
            (0..100u64).all(|i| {
                let message = b.recv().expect("a message");
                message.copy_to(&mut into) == 100 && number_of(&into) == i
            })
        };
        // Once before, so that whatever is made at first is there.
        send();
        let good = receive();
        send();
        // SAFETY: numbers only. The last call ends this thread, the only one of the child.
        unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT);
            let good = good && receive();
            libc::syscall(libc::SYS_exit, i32::from(!good));
        }
        false
    })
    .ok();
}
