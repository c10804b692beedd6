//! The same endpoint in several hands: duplicates, children, other programs, other processes, threads.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::process::{Command, Stdio};
use std::thread;

use dpfd::driver::Driver;

use crate::kit::*;

pub fn a_duplicate_is_the_same_endpoint(d: Driver) {
    let (a, b) = pair(d);
    let (mut da, mut db) = (file(&a), file(&b));
    da.write_all(b"one").expect("a write");
    assert_eq!(read(&b), b"one");
    write(&a, b"two");
    let mut buf = [0; 8];
    assert_eq!(db.read(&mut buf).expect("a read"), 3);
    drop(b);
    // The duplicate keeps it open.
    write(&a, b"three");
    assert_eq!(db.read(&mut buf).expect("a read"), 5);
}

pub fn a_child_reads_and_writes(d: Driver) {
    let (a, b) = pair(d);
    b.target(a.addr()).expect("a target");
    let (mut in_child, _) = (file(&b), ());
    let c = child(move || {
        let mut buf = [0; 64];
        for _ in 0..100 {
            let n = in_child.read(&mut buf).expect("a read");
            in_child.write_all(&buf[..n]).expect("a write");
        }
        true
    });
    for i in 0..100u64 {
        a.send(&numbered(i, 40)).expect("room");
        assert_eq!(recv(&a), numbered(i, 40));
    }
    c.ok();
}

pub fn calls_in_a_child_are_refused(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    a.send(b"for the parent").expect("room");
    // Two processes on one edge would spoil it: the child has plain calls, or endpoints of its own.
    child(|| {
        let refused = |r: dpfd::Result<()>| r.is_err_and(|e| e.errno() == libc::EBADF);
        refused(a.send(b"x")) && refused(b.recv().map(drop)) && refused(b.target(local(1)))
    })
    .ok();
    assert_eq!(recv(&b), b"for the parent");
}

pub fn an_executed_program_reads_and_writes(d: Driver) {
    let (a, b) = pair(d);
    b.target(a.addr()).expect("a target");
    // cat(1), which knows nothing of us: what comes in goes out again.
    let (stdin, stdout) = (file(&b), file(&b));
    let mut cat =
        Command::new("cat").stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).spawn().expect("cat");
    for i in 0..50u64 {
        write(&a, &numbered(i, 30));
        assert_eq!(recv(&a), numbered(i, 30));
    }
    // An empty message is what cat takes for the end.
    write(&a, b"");
    assert!(cat.wait().expect("cat").success());
}

pub fn a_descriptor_passed_to_another_process(d: Driver) {
    use nix::sys::socket::{
        recvmsg, sendmsg, socketpair, AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag,
        SockType,
    };
    use std::io::IoSliceMut;
    let (a, b) = pair(d);
    b.target(a.addr()).expect("a target");
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty()).expect("a pair");
    let c = child(move || {
        let mut byte = [0];
        let mut iov = [IoSliceMut::new(&mut byte)];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let msg = recvmsg::<()>(theirs.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::empty())
            .expect("a descriptor");
        let Some(ControlMessageOwned::ScmRights(fds)) = msg.cmsgs().expect("whole").next() else {
            return false;
        };
        // SAFETY: just received.
        let mut f = unsafe { std::fs::File::from_raw_fd(fds[0]) };
        let mut buf = [0; 64];
        let n = f.read(&mut buf).expect("a read");
        f.write_all(&buf[..n]).is_ok()
    });
    let fds = [b.as_raw_fd()];
    let iov = [std::io::IoSlice::new(b"x")];
    sendmsg::<()>(ours.as_raw_fd(), &iov, &[ControlMessage::ScmRights(&fds)], MsgFlags::empty(), None)
        .expect("passed on");
    a.send(b"to whoever holds it").expect("room");
    assert_eq!(recv(&a), b"to whoever holds it");
    c.ok();
}

pub fn two_threads_share_one_endpoint(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    b.target(a.addr()).expect("a target");
    thread::scope(|s| {
        for e in [&a, &b] {
            s.spawn(move || (0..5000u64).for_each(|i| e.send(&numbered(i, 64)).expect("room")));
            s.spawn(move || (0..5000u64).for_each(|i| assert_eq!(number_of(&recv(e)), i)));
        }
    });
}

pub fn a_childs_own_endpoints(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    let c = child(move || {
        let b = open(d, first + 1);
        b.target(local(first)).expect("a target");
        (0..100u64).all(|i| b.send(&numbered(i, 100)).is_ok() && number_of(&recv(&b)) == i)
    });
    a.target(local(first + 1)).expect("a target");
    for i in 0..100u64 {
        assert_eq!(number_of(&recv(&a)), i);
        a.send(&numbered(i, 100)).expect("room");
    }
    c.ok();
    let _ = a.as_fd();
}
