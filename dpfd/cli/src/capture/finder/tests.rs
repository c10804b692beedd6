//! Processes that are found, and found again.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// A process that has a family, as the list of processes has it.
fn process(pid: u32) -> Process {
    Process {
        pid,
        inner: pid,
        parent: 1,
        space: 0,
        uid: 0,
        name: "sh".into(),
        file: exe(pid),
        family: Some(1),
        shim: None,
        replaced: false,
        disabled: false,
    }
}

#[test]
fn one_that_executes_another_program_is_looked_at_again() {
    let children: Vec<_> = (0..2)
        .map(|_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo; read x; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().unwrap();
            // It is a shell by now.
            std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            shell
        })
        .collect();
    let [known, denied] = [0, 1].map(|i: usize| children[i].id());
    let (tell, _news) = mpsc::channel();
    let mut walker = Walker::default();
    walker.opened.insert(known, Opened::new(known).unwrap());
    walker.processes.insert(known, process(known));
    walker.denied.insert(denied, "denied".into());
    for pid in [known, denied] {
        let old = Other { delay: YOUNG * 2, ..Other::new(exe(pid)) };
        walker.others.insert(pid, old);
    }
    walker.walk(&tell).unwrap();
    assert!(walker.processes.contains_key(&known) && walker.denied.contains_key(&denied));
    let shell = exe(known);
    for mut child in children {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while exe(child.id()) == shell {
            assert!(Instant::now() < end, "it executes cat");
            thread::sleep(Duration::from_millis(5));
        }
        walker.walk(&tell).unwrap();
        let pid = child.id();
        assert!(!walker.processes.contains_key(&pid) && !walker.denied.contains_key(&pid));
        assert!(walker.others[&pid].delay < YOUNG, "it is looked at by and by");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
