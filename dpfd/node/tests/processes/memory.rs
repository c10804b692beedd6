//! Gateways and programs that live long: what they have of memory does not grow with the messages that go through them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::kit::{echo, numbered, open, Child, Node};
use crate::soak::{memory, seconds};
use crate::{there, two_nodes, ECHO};

/// Messages before memory is looked at: by then all that is made once was made.
const WARM: u64 = 60_000;
/// Messages for each second that a soak takes.
const EACH: u64 = 100_000;
/// What a process may have more for each of them, bytes, and in any case, KiB: what is allocated is never less than 24 bytes
/// apart, so less than one leak in ten messages is told.
const GROWTH: u64 = 2;
const SLACK: u64 = 128;

/// What it is told of is whole pages, not pages of 2 MiB that the kernel puts together in the background.
fn no_huge_pages() {
    // SAFETY: takes numbers only.
    unsafe { nix::libc::prctl(nix::libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Mostly short; some of several parts.
fn length(i: u64) -> usize {
    match i % 64 {
        0 => 20_000,
        1..4 => 3000,
        _ => 16 + (i * 97 % 200) as usize,
    }
}

/// Sends so many messages to one that echoes, and takes what comes back.
fn go(e: &dpfd::Endpoint, count: u64, messages: &[Vec<u8>]) {
    let mut into = vec![0; 1 << 15];
    for first in (0..count).step_by(messages.len()) {
        let some = &messages[..messages.len().min((count - first) as usize)];
        some.iter().for_each(|message| e.send_to(message, there(2)).expect("room"));
        for message in some {
            let (len, _) = e.recv_from(&mut into).expect("an answer");
            assert!(into[..len] == **message);
        }
    }
}

/// The client, which waits for a word before and after.
fn client(mut word: UnixStream, count: u64) -> bool {
    let e = open(0);
    let messages: Vec<_> = (0..64).map(|i| numbered(i, length(i))).collect();
    for count in [WARM, count] {
        go(&e, count, &messages);
        word.write_all(b"x").expect("the test");
        word.read_exact(&mut [0]).expect("the test");
    }
    true
}

fn does_not_grow(inside: bool) {
    let count = EACH * seconds();
    let [one, two] = two_nodes();
    let gateway = |node: &Node| (!inside).then(|| node.gateway_after(no_huge_pages));
    let gateways = [gateway(&one), gateway(&two)];
    let server = two.run(|| {
        no_huge_pages();
        let _gateway = inside.then(|| two.inside());
        echo(ECHO)
    });
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let client = one.run(|| {
        no_huge_pages();
        let _gateway = inside.then(|| one.inside());
        client(theirs, count)
    });
    let all: Vec<(&str, &Child)> = [("the client", &client), ("the server", &server)]
        .into_iter()
        .chain(["gateway 1", "gateway 2"].into_iter().zip(gateways.iter().flatten()))
        .collect();
    let look = |word: &mut UnixStream| {
        word.read_exact(&mut [0]).expect("the client");
        all.iter().map(|(_, of)| (memory(of, "RssAnon:"), of.descriptors())).collect::<Vec<_>>()
    };
    let before = look(&mut ours);
    ours.write_all(b"x").expect("the client");
    let after = look(&mut ours);
    for ((name, _), ((before, had), (after, has))) in all.iter().zip(before.into_iter().zip(after)) {
        let most = SLACK + GROWTH * count / 1024;
        println!("{name}: {before} KiB, and {after} KiB {count} messages later");
        assert_eq!(has, had, "descriptors of {name}");
        assert!(after < before + most, "{name} had {before} KiB, and has {after} {count} messages later");
    }
    drop(all);
    ours.write_all(b"x").expect("the client");
    client.ok();
    gateways.into_iter().flatten().chain([server]).for_each(Child::kill);
}

/// One after the other: figures of both are those of a machine that has no more to do for that.
#[test]
fn memory_does_not_grow_with_messages() {
    [false, true].into_iter().for_each(does_not_grow);
}
